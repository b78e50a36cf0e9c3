"""A drafter of one format rewritten for another: key maps as data, and whatever is missing or unknown raises."""

from k25serve.drafters.adapters.draft import AdaptOptions
from k25serve.drafters.adapters.run import ADAPTERS, Adapted, adapt

__all__ = ["ADAPTERS", "AdaptOptions", "Adapted", "adapt"]
