"""A run small enough for seconds: the packaged target, a few conversations, an engine at its HTTP seam."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drafter_files.state_engine import StateEngines

from k25serve.drafters.training.progress import Silent
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.load import load_config
from k25serve.drafters.training.run.orchestrate import Ran, run

SMALL = (
    "data.packaged=0",
    "data.held_out=0.3",
    "capture.rows_per_shard=3",
    "check=0",
    "fit.max_steps=4",
    "fit.evaluate_every=2",
    "fit.checkpoint_every_steps=1",
    "fit.tokens_per_batch=128",
)


@dataclass
class Runs:
    """Starts the run in `out`; keeps what it said and how often an engine was booted."""

    out: Path
    sets: list[str]
    said: list[str] = field(default_factory=list)
    boots: int = 0
    before: Callable[[int], None] = lambda answered: None

    def __call__(self, *changes: str, **keywords: Any) -> Ran:
        made: list[StateEngines] = []

        def engines(folder: RunFolder, say: Callable[[str], None]) -> StateEngines:
            made.append(StateEngines(folder, say))
            made[-1].before = self.before
            return made[-1]

        self.said.clear()
        try:
            return run(
                load_config("packaged:micro", [*self.sets, *changes]),
                self.out,
                self.said.append,
                progress=lambda: contextlib.nullcontext(Silent()),
                engines=engines,
                **keywords,
            )
        finally:
            self.boots = made[0].boots if made else 0
