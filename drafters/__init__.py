"""Draft models: files in, files out."""
