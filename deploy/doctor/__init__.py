"""`k25serve doctor`: what would stop or slow an engine, found before any weight is loaded; and what a log says."""
