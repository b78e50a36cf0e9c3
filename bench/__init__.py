"""Measurements and the result files that they leave."""
