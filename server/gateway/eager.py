"""Runs a coroutine that seldom has to wait, without a task."""

from collections.abc import Awaitable, Generator
from types import TracebackType
from typing import Any, Self


def begin(work: Awaitable[None]) -> Awaitable[None] | None:
    """Runs `work` up to its first wait; None: it has ended. Else whoever awaits the result runs the rest.

    ASGI's send waits only while the client reads too slowly. Waking a task for each chunk costs more than that send.
    """
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration:
        return None
    return _Rest(steps, waits_for)


class _Rest(Generator[Any, Any, None]):
    """Work that has come to its first wait, on which it may be resumed or cancelled as on any other."""

    def __init__(self, steps: Generator[Any, Any, None], waits_for: Any) -> None:
        self._steps = steps
        self._first = [waits_for]

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._first.pop() if self._first else self._steps.send(value)

    def throw(self, error: Any, value: BaseException | object = None, traceback: TracebackType | None = None) -> Any:
        return self._steps.throw(error)
