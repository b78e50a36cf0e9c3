"""The OpenAI-compatible front: command line, configuration, engine launcher and gateway."""
