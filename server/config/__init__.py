"""Profile: what a deployment is, as frozen data."""
