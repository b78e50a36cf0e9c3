"""Runs a coroutine that seldom has to wait, without a task."""

import types
from collections.abc import Awaitable, Generator
from typing import Any


def begin(work: Awaitable[None]) -> Awaitable[None] | None:
    """Runs `work` up to its first wait; None: it has ended. Else whoever awaits the result runs the rest.

    ASGI's send waits only while the client reads too slowly. Waking a task for each chunk costs more than that send.
    """
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration:
        return None
    return _rest(steps, waits_for)


@types.coroutine
def _rest(steps: Generator[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    try:
        yield waits_for
    except BaseException:
        steps.close()
        raise
    yield from steps
