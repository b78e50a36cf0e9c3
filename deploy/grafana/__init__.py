"""Dashboards made by code, as JSON beside it, and the files that put them into a Grafana."""
