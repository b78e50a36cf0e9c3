"""API keys: who may ask at all."""
