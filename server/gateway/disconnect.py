"""The client's side: its body, and the moment it leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive

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
    """Runs `work` until it ends or the client leaves, whichever comes first.

    Raises:
        ClientGoneError: the client left; `work` has been cancelled and has ended.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
