"""GPU time of stretches of a stream, without waiting for the GPU: of a sample, since an event costs the CPU 5 us."""

from collections import defaultdict, deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

EVERY = 4  # of a mode's stretches one is timed, on average; a stretch took 19 us on an H200's host (torch 2.11)
ALWAYS = frozenset({"extend"})  # from one token to thousands, and rarer than the others


class Event(Protocol):
    """What is used of torch.cuda.Event."""

    def record(self) -> None: ...

    def query(self) -> bool: ...

    def elapsed_time(self, end_event: Any) -> float: ...


Pair = tuple[Event, Event]


class Add(Protocol):
    """Gets a stretch that stands for `weight` of its mode."""

    def __call__(self, value: float, label: str, weight: int, /) -> None: ...


def random_gap() -> Callable[[], int]:
    """How many stretches until the next that is timed, that one included: 1 to 7, so 4 on average.

    Not always 4: what an engine does each so manieth step, as it logs or probes, would be met always or never.
    """
    draw = Random()
    return lambda: draw.randint(1, 2 * EVERY - 1)


class EventTimer:
    """Records an event before and after a stretch; reads them back once the GPU has passed them, some steps later.

    Of each mode the first stretch is timed, then one of EVERY at random, and all of those in ALWAYS. A timed stretch
    stands for itself and those since the one before, so counts and sums are those of all stretches up to the last
    that was timed. `add(seconds, mode, weight)` gets each, in order. Events are used again, so a long run makes a few
    dozen in all.
    """

    def __init__(
        self, add: Add, make_event: Callable[[], Event] | None = None, gap: Callable[[], int] | None = None
    ) -> None:
        self._add = add
        self._make_event = make_event or _timing_event
        self._gap = gap or random_gap()
        self._free: list[Pair] = []
        self._running: deque[tuple[Pair, str, int]] = deque()
        self._since: dict[str, int] = defaultdict(int)  # stretches of a mode after the last that was timed
        self._next: dict[str, int] = {}

    def start(self, mode: str) -> Pair | None:
        """Begin a stretch on the current stream; None where this one is not timed."""
        since = self._since[mode] = self._since[mode] + 1
        if since < self._next.get(mode, 1):
            return None
        self.drain()
        pair = self._free.pop() if self._free else (self._make_event(), self._make_event())
        pair[0].record()
        return pair

    def stop(self, begun: Pair, mode: str) -> None:
        """End a stretch that is timed, on the current stream."""
        begun[1].record()
        self._running.append((begun, mode, self._since[mode]))
        self._since[mode] = 0
        self._next[mode] = 1 if mode in ALWAYS else self._gap()

    def drain(self) -> None:
        """Report every stretch that the GPU has finished."""
        while self._running and self._running[0][0][1].query():
            pair, mode, weight = self._running.popleft()
            self._add(pair[0].elapsed_time(pair[1]) / 1e3, mode, weight)  # milliseconds
            self._free.append(pair)


def _timing_event() -> Event:
    import torch

    event: Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event
