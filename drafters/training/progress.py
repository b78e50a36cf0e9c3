"""How far a step is: a bar with the time left on a terminal, else a line now and then."""

import sys
import time
from types import TracebackType
from typing import Any, Protocol, Self, TextIO


class Progress(Protocol):
    """What a step tells of itself. A stage begins with `start`; `total` None: not known beforehand."""

    def start(self, stage: str, total: int | None) -> None: ...
    def advance(self, count: int = 1) -> None: ...


class Silent:
    """Tells nothing."""

    def start(self, stage: str, total: int | None) -> None:
        """Nothing."""

    def advance(self, count: int = 1) -> None:
        """Nothing."""


class Lines:
    """At most one line each `every` seconds, and one at the end of a stage whose total is known."""

    def __init__(self, file: TextIO, every: float = 10.0) -> None:
        self._file, self._every = file, every
        self._stage, self._done = "", 0
        self._total: int | None = None
        self._started = self._told = time.monotonic()

    def start(self, stage: str, total: int | None) -> None:
        self._stage, self._total, self._done = stage, total, 0
        self._started = self._told = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if self._done != self._total and now - self._told < self._every:
            return
        self._told = now
        gone = now - self._started
        left = "" if self._total is None else f", {gone / max(1, self._done) * (self._total - self._done):.0f} s left"
        of = "" if self._total is None else f"/{self._total}"
        print(f"[{self._stage}] {self._done}{of} | {gone:.0f} s gone{left}", file=self._file, flush=True)


class Bar:
    """One rich bar a stage."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._rich = Rich(*columns, console=Console(stderr=True))
        self._task: Any = None

    def start(self, stage: str, total: int | None) -> None:
        self._task = self._rich.add_task(stage, total=total)

    def advance(self, count: int = 1) -> None:
        self._rich.advance(self._task, count)

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rich.stop()


class Shown:
    """`with Shown() as progress`: a bar where stderr is a terminal, else lines there."""

    def __enter__(self) -> Progress:
        self._bar = Bar() if sys.stderr.isatty() else None
        return self._bar.__enter__() if self._bar else Lines(sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.__exit__(kind, error, trace)
