"""Signals as calls, for as long as they are wanted."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_stop(call: Callable[[], object]) -> Iterator[None]:
    """While inside, SIGINT and SIGTERM make `call` in the running loop."""
    loop = asyncio.get_running_loop()
    for number in STOP:
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in STOP:
            loop.remove_signal_handler(number)
