"""The statistics of an A/B, one file each. Pure."""
