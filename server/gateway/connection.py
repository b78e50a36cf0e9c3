"""One HTTP/1.1 connection to an engine, with at most one request at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import httptools

Headers = list[tuple[bytes, bytes]]
"""Names in lower case."""
Sink = Callable[[bytes], Awaitable[None] | None]
"""Takes one read's bytes. What it returns is awaited before it gets more."""
Through = Callable[[bytes], bool]
"""Takes one read as it came, if it is a chunk of a body, whole; False: it has not taken it."""
_HIGH_WATER = 256 * 1024
"""Unread bytes of one answer at which its connection is no longer read."""


class WireError(Exception):
    """The engine hung up, or wrote what isn't HTTP, before the answer was whole."""


class Connection(asyncio.Protocol):
    """`keep` gets it when it can be used again, `lost` when it never can."""

    def __init__(self, keep: Callable[["Connection"], None], lost: Callable[["Connection"], None]) -> None:
        self._keep, self._on_lost = keep, lost
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._headers: Headers = []
        self._status = 0
        self._chunks: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._complete = True
        self._sink: Sink | None = None
        self._through: Through | None = None
        self._between_chunks = False
        self._blocked: Awaitable[None] | None = None
        self._waiting_since = 0.0
        self._reusable = True
        self._lost = False
        self.idle_since = 0.0

    @property
    def closing(self) -> bool:
        return self._lost or self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes, until: float, sent: Callable[[], None]) -> tuple[int, Headers]:
        """Sends a request; the answer's status and headers. Raises TimeoutError and WireError; see Wire.ask."""
        self._headers, self._status, self._complete = [], 0, False
        self._between_chunks = False
        # One write, and no copy of a large body.
        self._transport.writelines((head, body)) if len(body) > _HIGH_WATER else self._transport.write(head + body)
        sent()
        while not self._status:
            await self._wait(until)
        return self._status, self._headers

    async def pump(
        self, sink: Sink, deadline: Callable[[float], float], look_s: float, through: Through | None = None
    ) -> bytes:
        """See Answer.pump."""
        blocked = None
        while True:
            if blocked is None and self._chunks and not self._complete:
                blocked = sink(self._take())
            if blocked is not None:
                await blocked
                blocked = None
                continue
            if self._complete:
                return self._take()
            self._sink, self._through = sink, through
            self._waiting_since = self._loop.time()
            try:
                await self._wait(min(deadline(self._waiting_since), self._waiting_since + look_s))
            except TimeoutError:
                if self._loop.time() >= deadline(self._waiting_since):
                    raise
            finally:
                self._sink = self._through = None
            blocked, self._blocked = self._blocked, None

    async def read(self, until: float) -> bytes:
        """See Answer.read."""
        parts = [self._take()]
        while not self._complete:
            await self._wait(until)
            parts.append(self._take())
        return b"".join(parts)

    def _take(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._unread = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def release(self) -> None:
        """The answer's reader is done with it. Its timer stays for the next one, whose time is hardly ever sooner."""
        self._chunks.clear()
        if self._complete and self._reusable and not self.closing:
            self.idle_since = self._loop.time()
            self._keep(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Cuts the connection without another byte."""
        self._transport.abort()

    async def _wait(self, until: float) -> None:
        """Until something has come. One timer serves many waits: it is moved only when it would ring too late."""
        if self._lost:
            raise WireError("the connection is lost")
        self._until = until
        if self._timer is None or self._timer.when() > until:
            self._stop_timer()
            self._timer = self._loop.call_at(until, self._ring)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._ring)
        else:
            self._waiter.set_exception(TimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._complete:
            # Nothing was asked.
            self.abort()
            return
        # Where a chunk can begin, the parser need not see a whole one: it stays where it is.
        if self._through is not None and self._between_chunks and self._blocked is None and self._through(data):
            self._waiting_since = self._loop.time()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()
            return
        if not data.endswith(b"\r\n"):
            # The next chunk's size may have begun.
            self._between_chunks = False
        if self._sink is not None and self._blocked is None and self._chunks and not self._complete:
            self._blocked = self._sink(self._take())
            if self._blocked is None:
                self._waiting_since = self._loop.time()
                return
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._stop_timer()
        if self._status and not self._complete and self._ends_with_connection(exc):
            self._complete = True
        self._on_lost(self)
        self._wake()

    def on_message_begin(self) -> None:
        if self._complete:
            # The parser gives up on it, and so ends the connection.
            raise WireError("an answer that nobody asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status
        else:
            self._headers = []

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._unread += len(body)
        if self._unread > _HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_chunk_header(self) -> None:
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True
            self._reusable = self._parser.should_keep_alive()

    def _ends_with_connection(self, exc: Exception | None) -> bool:
        """Whether the body's length was told in no other way."""
        return exc is None and not any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)
