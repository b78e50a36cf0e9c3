"""`drafter train vocab`: which target tokens the drafter can draft, from how often answers hold them."""

from k25serve.drafters.training.vocab.build import build
from k25serve.drafters.training.vocab.options import VocabOptions
from k25serve.drafters.training.vocab.report import VocabReport

__all__ = ["VocabOptions", "VocabReport", "build"]
