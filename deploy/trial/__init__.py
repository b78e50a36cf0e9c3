"""A profile tried in the place of what serves now, which comes back by one command or by itself."""
