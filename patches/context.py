"""What a row's class is made with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from k25serve.patches.manifest.row import Device, Process, Value
from k25serve.patches.wrap import Placed


@dataclass(frozen=True)
class Here:
    """One process of the engine: where it runs, and what is in place in it so far, row by row and hook by hook."""

    version: str
    device: Device
    process: Process
    objects: dict[str, Any] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)


@dataclass(frozen=True)
class Context:
    """The process that a row is put in place in, and the row's options, all of them."""

    here: Here
    options: Mapping[str, Value]
