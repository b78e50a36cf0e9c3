"""How the stages start engines on this machine."""

from dataclasses import dataclass
from pathlib import Path

STOCK_VERIFY = ("patches.mla_verify=false",)
"""`--set` values that leave SGLang's own verify kernel in place."""


@dataclass(frozen=True)
class Start:
    """Values to `--set` (the engine's version, say), SGLang arguments for every engine, and a folder for the logs."""

    overrides: tuple[str, ...]
    engine_args: tuple[str, ...]
    folder: Path
