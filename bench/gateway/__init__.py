"""Gateways side by side: what each one costs, adds, loses, and how soon it lets the engine go."""
