"""What Prometheus is told: whom to scrape, one name for both engines, when to alert."""
