"""How the service is run: profiles and locks."""
