"""Signals as calls, for as long as they are wanted; work that no cancellation cuts short."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

STOP = (signal.SIGINT, signal.SIGTERM)
OR_CLOSED = (*STOP, signal.SIGHUP)  # the terminal's end too

Result = TypeVar("Result")
Handler = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def on_stop(call: Callable[[], object], numbers: Sequence[signal.Signals] = STOP) -> Iterator[None]:
    """While inside, `numbers` make `call` in the running loop; afterwards they do again what they did before."""
    before = listen(call, numbers)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def listen(call: Callable[[], object], numbers: Sequence[signal.Signals] = STOP) -> dict[signal.Signals, Handler]:
    """From now on `numbers` make `call` in the running loop; gives what they did before.

    SIGHUP stays ignored where it is: the process runs under nohup.
    """
    # Not by the loop's own add_signal_handler: it can't tell what to put back, so an engine that stops inside an A/B
    # would leave the A/B deaf.
    loop = asyncio.get_running_loop()

    def heard(_number: int, _frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heeded = [number for number in numbers if not (ignored and number == signal.SIGHUP)]
    return {number: signal.signal(number, heard) for number in heeded}


async def finished(task: asyncio.Task[Result]) -> Result:
    """Its result, waited for through any cancellation, which takes effect after it. Raises what the task raises."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
