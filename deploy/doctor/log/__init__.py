"""An engine's log -> cause and advice."""
