"""A step of a run, as data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def nothing() -> None:
    """What a step that leaves nothing behind has to clean."""


@dataclass(frozen=True)
class Step:
    """settings: what it is asked, plain values. needs: steps whose results it reads.

    do: does it or goes on with it, and returns facts for the reader. result: hash of what it made, None where that is
    not whole. clean: removes what it made. mends: `do` itself makes what is missing or damaged anew, and
    keeps the rest.
    """

    name: str
    needs: tuple[str, ...]
    settings: Callable[[], Any]
    do: Callable[[], dict[str, Any]]
    result: Callable[[], str | None]
    clean: Callable[[], None] = nothing
    mends: bool = False
