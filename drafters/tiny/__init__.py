"""A tiny trained target model of Kimi-K2.5's shape and its EAGLE-3 drafter, packaged; `make` builds both again.

Importing this package imports neither torch nor transformers.
"""

from pathlib import Path

MODELS: Path = Path(__file__).parent / "models"
TARGET: Path = MODELS / "target"
DRAFTER: Path = MODELS / "drafter"
