"""Profile: what a deployment is, as frozen data."""

from k25serve.server.config.load import load_profile, profile_names
from k25serve.server.config.profile import Engine, Gate, Gateway, Profile, Speculation

__all__ = ["Engine", "Gate", "Gateway", "Profile", "Speculation", "load_profile", "profile_names"]
