"""The client's side: its body, and the moment it leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive

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
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLargeError(f"The body has more than {limit} bytes: send less, or raise max_body_bytes.")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def unless_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Runs `work`, in the caller's own task, until it ends or the client leaves, whichever comes first.

    Raises:
        ClientGoneError: the client left; `work` has been cancelled and has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        await _left(receive)
        gone = True
        task.cancel()

    # What can be done at once is, before there is anything to watch for.
    rest = begin(work)
    if rest is None:
        return
    watching = asyncio.create_task(watch())
    try:
        await rest
    except asyncio.CancelledError:
        # The server may have cancelled it as well.
        if gone and task.uncancel() == 0:
            raise ClientGoneError from None
        raise
    finally:
        watching.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
