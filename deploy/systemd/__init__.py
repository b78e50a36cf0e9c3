"""Units of systemd: templates, and their rendering for a profile."""
