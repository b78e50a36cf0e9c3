"""The client's side: its body, and the moment it leaves."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import Receive
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from k25serve.server.gateway.cycle import cycle_of
from k25serve.server.gateway.eager import begin
from k25serve.server.gateway.errors import BodyTooLargeError


class ClientGoneError(Exception):
    """The client closed its connection before it had its answer; nobody is left to be told."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole request body.

    Raises:
        ClientGoneError: it never became whole.
        BodyTooLargeError: more than `limit` bytes.
    """
    cycle = cycle_of(receive)
    if cycle is not None and not (cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue):
        # It came with the head.
        body, cycle.body = bytes(cycle.body), bytearray()
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body has more than {limit} bytes: send less, or raise max_body_bytes.")


async def unless_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Runs `work`, in the caller's own task, until it ends or the client leaves, whichever comes first.

    Raises:
        ClientGoneError: the client left; `work` has been cancelled and has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    def left() -> None:
        nonlocal gone
        gone = True
        task.cancel()

    # What can be done at once is, before there is anything to watch for.
    rest = begin(work)
    if rest is None:
        return
    cycle = cycle_of(receive)
    watch: _Bell | _Watch = _Watch(receive, left) if cycle is None else _Bell(cycle, left)
    try:
        await rest
    except asyncio.CancelledError:
        # The server may have cancelled it as well.
        if gone and task.uncancel() == 0:
            raise ClientGoneError from None
        raise
    finally:
        watch.end()


class _Watch:
    """Waits for the client to leave as ASGI has it: in a task."""

    def __init__(self, receive: Receive, left: Callable[[], None]) -> None:
        self._task = asyncio.create_task(self._wait(receive, left))

    def end(self) -> None:
        self._task.cancel()

    async def _wait(self, receive: Receive, left: Callable[[], None]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left()


class _Bell:
    """Takes the place of the event by which uvicorn tells receive() that the client has left: no task has to wait."""

    def __init__(self, cycle: RequestResponseCycle, left: Callable[[], None]) -> None:
        self._cycle = cycle
        self._left = left
        self._event = cycle.message_event
        cycle.message_event = self  # type: ignore[assignment]
        # As receive() would: a socket that isn't read, after a long body, doesn't tell of its end.
        cycle.flow.resume_reading()
        if cycle.disconnected:
            left()

    def set(self) -> None:
        self._event.set()
        if self._cycle.disconnected:
            self._left()

    def end(self) -> None:
        self._cycle.message_event = self._event
