"""What the story can be told, and what each of its two trainings is asked for."""

import json
from dataclasses import dataclass
from pathlib import Path

from k25serve.drafters.training.run.load import load_config
from k25serve.drafters.training.run.options import GateOptions

WARM, SCRATCH = "packaged:tiny", "packaged:tiny-scratch"
RATE = 5e-4  # another target: the weights have further to go than packaged:tiny's own rate takes them


@dataclass(frozen=True)
class StoryOptions:
    """steps: of training the target further; chats, epochs: of both drafters' training; prompts: held out, for each."""

    steps: int = 60
    chats: int = 1200
    epochs: int = 3
    prompts: int = 48


@dataclass(frozen=True)
class Places:
    """Where things lie in --out."""

    out: Path

    @property
    def options(self) -> Path:
        return self.out / "options.json"

    @property
    def target(self) -> Path:
        return self.out / "target"

    @property
    def chats(self) -> Path:
        return self.out / "chats.jsonl"

    @property
    def adapted(self) -> Path:
        return self.out / "adapted"

    @property
    def warm(self) -> Path:
        return self.out / "warm"

    @property
    def scratch(self) -> Path:
        return self.out / "scratch"

    @property
    def own(self) -> Path:
        return self.out / "own"


def warm_sets(options: StoryOptions, places: Places) -> list[str]:
    """packaged:tiny begun from the adapted drafter, and compared with it."""
    adapted = _text(places.adapted)
    return [
        *_sets(options, places),
        f"fit.init.drafter={adapted}",
        f"gate.baseline={adapted}",
        f"fit.optimizer.learning_rate={RATE}",
    ]


def scratch_sets(options: StoryOptions, places: Places) -> list[str]:
    """packaged:tiny-scratch on the same target and chats; the adapted drafter is measured once, with the warm one."""
    return [*_sets(options, places), "gate.baseline=null"]


def gate_options(options: StoryOptions, places: Places) -> GateOptions:
    """As both trainings have it."""
    gate = load_config(WARM, warm_sets(options, places)).gate
    assert gate is not None
    return gate


def _sets(options: StoryOptions, places: Places) -> list[str]:
    return [
        f"target={_text(places.target)}",
        "data.packaged=0",
        f"data.inputs=[{_text(places.chats)}]",
        f"fit.epochs={options.epochs}",
        "fit.max_minutes=null",
        f"gate.prompts={options.prompts}",
    ]


def _text(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)
