"""GPU time of stretches of a stream, without waiting for the GPU."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol


class Event(Protocol):
    """What is used of torch.cuda.Event."""

    def record(self) -> None: ...

    def query(self) -> bool: ...

    def elapsed_time(self, end_event: Any) -> float: ...


Pair = tuple[Event, Event]


class EventTimer:
    """Records an event before and after a stretch; reads them back once the GPU has passed them, some steps later.

    `add(seconds, mode)` gets each stretch, in order. Events are used again, so a long run makes a few dozen in all.
    """

    def __init__(self, add: Callable[[float, str], None], make_event: Callable[[], Event] | None = None) -> None:
        self._add = add
        self._make_event = make_event or _timing_event
        self._free: list[Pair] = []
        self._running: deque[tuple[Pair, str]] = deque()

    def start(self) -> Pair:
        """Begin a stretch on the current stream."""
        self.drain()
        pair = self._free.pop() if self._free else (self._make_event(), self._make_event())
        pair[0].record()
        return pair

    def stop(self, begun: Pair, mode: str) -> None:
        """End the stretch on the current stream."""
        begun[1].record()
        self._running.append((begun, mode))

    def drain(self) -> None:
        """Report every stretch that the GPU has finished."""
        while self._running and self._running[0][0][1].query():
            pair, mode = self._running.popleft()
            self._add(pair[0].elapsed_time(pair[1]) / 1e3, mode)  # milliseconds
            self._free.append(pair)


def _timing_event() -> Event:
    import torch

    event: Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event
