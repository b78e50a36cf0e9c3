"""What an adapter works on: a drafter under canonical names, and the job to be done. Nothing is changed in place."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from k25serve.drafters.adapters.data import Data
from k25serve.drafters.checkpoint import AdaptError, Checkpoint, Target

Layout = Literal["midlayer", "layers", "model-layers"]


@dataclass(frozen=True)
class Draft:
    """config.json, the tensors by canonical name (`midlayer.…`), and what was done so far, in sentences."""

    config: dict[str, Any]
    tensors: dict[str, Data]
    changes: tuple[str, ...] = ()

    def with_config(self, change: str, **values: Any) -> "Draft":
        """Config values set; the change is told unless they were so already."""
        if all(key in self.config and self.config[key] == value for key, value in values.items()):
            return self
        return replace(self, config={**self.config, **values}, changes=(*self.changes, change))

    def with_tensors(self, change: str, tensors: Mapping[str, Data | None]) -> "Draft":
        """Tensors put in place, or left out where None."""
        merged = {**self.tensors, **tensors}
        kept = {name: data for name, data in merged.items() if data is not None}
        return replace(self, tensors=kept, changes=(*self.changes, change))

    def noting(self, change: str) -> "Draft":
        return replace(self, changes=(*self.changes, change))

    def size(self, key: str) -> int:
        """A positive integer of the config. Raises AdaptError where there is none: no dimension is guessed."""
        value = self.config.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise AdaptError(f"config.json: {key} is {value!r}, a positive integer belongs there; write the trainer's")
        return value


@dataclass(frozen=True)
class AdaptOptions:
    """What the user says. Whatever is None is taken from the checkpoint, or refused where it says nothing.

    counts: a JSON file of token counts, or `rank`; keep_vocabulary: leave missing special tokens out.
    lend_lm_head: a head that is missing becomes the target's. layout: midlayer where none is given.
    """

    context_length: int | None = None
    aux_layers: tuple[int, ...] | None = None
    aux_convention: Literal["auto", "input", "output"] = "auto"
    accept_default_aux: bool = False
    d2t_form: Literal["offset", "absolute"] | None = None
    counts: str | None = None
    keep_vocabulary: bool = False
    lend_lm_head: bool = False
    dtype: Literal["bf16", "f16", "f32"] | None = None
    layout: Layout | None = None


@dataclass(frozen=True)
class Job:
    """Where the drafter comes from, what it is for, and what was asked."""

    source: Checkpoint
    target_or_none: Target | None
    options: AdaptOptions

    @cached_property
    def target(self) -> Target:
        """The target. Raises AdaptError where none was given and one is needed."""
        if self.target_or_none is None:
            raise AdaptError("--target is missing, and this needs it; pass the target's folder")
        return self.target_or_none

    def command(self, adapter: str) -> str:
        """A command that a user can run as it stands; `adapter` is its name, with options where it needs any."""
        folder = self.source.folder
        words = ["--drafter", str(folder), "--out", f"{folder.resolve().name}-adapted"]
        if self.target_or_none is not None:
            words[2:2] = ["--target", str(self.target_or_none.folder)]
        return f"k25serve drafter adapt {adapter} {shlex.join(words)}"


Step = Callable[[Draft, Job], Draft]
# A format's config.json -> SGLang's, and what was done, in sentences.
ReadConfig = Callable[[dict[str, Any]], tuple[dict[str, Any], tuple[str, ...]]]


@dataclass(frozen=True)
class Adapter:
    """A named row of steps. `layout`: None where the user chooses; `drops`: patterns of names for training only.

    `checks`: what the steps made sure of, told where SGLang's check does not apply; empty where it does.
    """

    name: str
    says: str
    read_config: ReadConfig
    steps: tuple[Step, ...]
    layout: Layout | None = "midlayer"
    drops: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
