"""The public drafters for Kimi-K2, K2-Thinking, K2.5 and K2.6: what is known of them, and where from."""

from k25serve.drafters.registry.entry import Acceptance, AuxLayers, Entry, PromptClass, TargetName
from k25serve.drafters.registry.load import Registry, load_registry

__all__ = ["Acceptance", "AuxLayers", "Entry", "PromptClass", "Registry", "TargetName", "load_registry"]
