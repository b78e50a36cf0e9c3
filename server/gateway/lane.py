"""The client's connection, where ASGI's send() would take two writes for one or a message for each chunk.

Both reach into uvicorn's request cycle, whose own bytes they keep; behind another server they do nothing.
"""

import asyncio
from typing import Any, Self

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from k25serve.server.gateway.cycle import cycle_of


def join_head(send: Send) -> None:
    """Lets an answer's head leave in one write with the bytes that follow at once. None of them waits for others."""
    cycle = cycle_of(send)
    if cycle is not None:
        cycle.transport = _HeadFirst(cycle)  # type: ignore[assignment]


class Lane:
    """Writes chunks of one answer as they came from the engine, in HTTP's framing.

    uvicorn's send() would check, copy and frame each anew, in a coroutine, which costs a quarter of a chunk's CPU time.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._flow = cycle.flow

    @classmethod
    def of(cls, send: Send) -> Self | None:
        """The lane behind `send`, whose answer has begun; None: another server's, or its body isn't in chunks."""
        cycle = cycle_of(send)
        return cls(cycle) if cycle is not None and cycle.chunked_encoding else None

    def write(self, chunk: bytes) -> bool:
        """Whether it has written it. It leaves a client that reads too slowly, or has left, to send()."""
        cycle = self._cycle
        if self._flow.write_paused or cycle.disconnected:
            return False
        cycle.transport.write(chunk)
        return True


class _HeadFirst:
    """A cycle's transport until its second write, or until the event loop has run what is due now."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        if self._head is None:
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)
            return
        data, self._head = self._head + data, b""
        self._pass(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._head:
            data, self._head = self._head, b""
            self._pass(data)

    def _pass(self, data: bytes) -> None:
        self._cycle.transport = self._transport
        self._transport.write(data)
