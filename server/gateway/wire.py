"""HTTP/1.1 to one engine: protocol-level, since a client library's layers cost more than all else here per chunk."""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import urlsplit

import httptools

# SGLang's uvicorn closes an idle connection after 5 s. A POST sent in that instant is lost and can't be repeated
# safely, so ours are dropped well before.
_KEEPALIVE_S = 2.0
_HIGH_WATER = 256 * 1024
"""Unread bytes of one answer at which its connection is no longer read."""


Sink = Callable[[bytes], Awaitable[None] | None]
"""Takes one read's bytes. What it returns is awaited before it gets more."""


class WireError(Exception):
    """The engine hung up, or wrote what isn't HTTP, before the answer was whole."""


class Answer:
    """An answer whose headers have come. Its reader closes it; closed early, the connection is cut at once."""

    def __init__(self, connection: "_Connection", status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers = headers
        """Names in lower case."""
        self._connection: _Connection | None = connection

    def header(self, name: bytes) -> bytes | None:
        return next((value for found, value in self.headers if found == name), None)

    @property
    def content_type(self) -> str:
        """Without its parameters, in lower case."""
        value = self.header(b"content-type") or b""
        return value.partition(b";")[0].strip().lower().decode("latin-1")

    async def pump(self, sink: "Sink", deadline: Callable[[float], float], look_s: float) -> None:
        """Hands every read's bytes to `sink`, from within the read itself, until the answer's end.

        `deadline`: until when the next bytes have to come, given since when they are waited for; both on the event
        loop's clock. It is looked at each `look_s` seconds, so it may move.

        Raises:
            TimeoutError: none came by then.
            WireError: the connection broke first.
        """
        assert self._connection is not None
        await self._connection.pump(sink, deadline, look_s)

    async def read(self, until: float) -> bytes:
        """The whole body.

        Raises:
            TimeoutError: it was not whole by `until`, on the event loop's clock.
            WireError: the connection broke first.
        """
        assert self._connection is not None
        return await self._connection.read(until)

    def close(self) -> None:
        """May be called again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()


class Wire:
    """Connections to one server, kept alive between requests and as many as there are requests."""

    def __init__(self, url: str, connect_timeout_s: float) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host = parts.hostname
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (80 if self._tls is None else 443)
        self._netloc = parts.netloc.rpartition("@")[2].encode()
        self._connect_timeout_s = connect_timeout_s
        self._idle: deque[_Connection] = deque()
        """The one that was used last is at the right."""
        self._open: set[_Connection] = set()

    async def ask(self, method: str, path: str, headers: bytes, body: bytes, until: float) -> Answer:
        """Sends a request and waits for the answer's headers. Cancelled, it cuts the connection.

        `headers` are whole lines; Host and Content-Length are added.

        Raises:
            ConnectionError: no connection; its subclass ConnectionAbortedError: none in time.
            TimeoutError: no headers by `until`.
            WireError: the connection broke.
        """
        connection = self._reusable() or await self._connect()
        head = f"{method} {path} HTTP/1.1\r\ncontent-length: {len(body)}\r\nhost: ".encode() + self._netloc + b"\r\n"
        try:
            return await connection.ask(head + headers + b"\r\n", body, until)
        except BaseException:
            connection.abort()
            raise

    def close(self) -> None:
        """Cuts every connection."""
        for connection in list(self._open):
            connection.abort()

    def keep(self, connection: "_Connection") -> None:
        self._idle.append(connection)

    def lost(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _reusable(self) -> "_Connection | None":
        """The connection that was used last. Those that have been idle too long are cut."""
        oldest = asyncio.get_running_loop().time() - _KEEPALIVE_S
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection
        return None

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self), self._host, self._port, ssl=self._tls
                )
        except TimeoutError as error:
            raise ConnectionAbortedError(f"no connection within {self._connect_timeout_s:g} s") from error
        except ConnectionError:
            raise
        except OSError as error:
            raise ConnectionRefusedError(str(error)) from error
        self._open.add(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection with at most one request at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._chunks: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._complete = True
        self._sink: Sink | None = None
        self._blocked: Awaitable[None] | None = None
        self._waiting_since = 0.0
        self._reusable = True
        self._lost = False
        self.idle_since = 0.0

    @property
    def closing(self) -> bool:
        return self._lost or self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes, until: float) -> Answer:
        self._headers, self._status, self._complete = [], 0, False
        # One write, and no copy of a large body.
        self._transport.writelines((head, body)) if len(body) > _HIGH_WATER else self._transport.write(head + body)
        while not self._status:
            await self._wait(until)
        return Answer(self, self._status, self._headers)

    async def pump(self, sink: Sink, deadline: Callable[[float], float], look_s: float) -> None:
        blocked = None
        while True:
            if self._chunks:
                blocked = sink(self._take())
            if blocked is not None:
                await blocked
                blocked = None
                continue
            if self._complete:
                return
            self._sink = sink
            self._waiting_since = self._loop.time()
            try:
                await self._wait(min(deadline(self._waiting_since), self._waiting_since + look_s))
            except TimeoutError:
                if self._loop.time() >= deadline(self._waiting_since):
                    raise
            finally:
                self._sink = None
            blocked, self._blocked = self._blocked, None

    async def read(self, until: float) -> bytes:
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
        """The answer's reader is done with it."""
        self._stop_timer()
        self._chunks.clear()
        if self._complete and self._reusable and not self.closing:
            self.idle_since = self._loop.time()
            self._wire.keep(self)
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
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()
            return
        if self._sink is not None and self._blocked is None and self._chunks:
            self._blocked = self._sink(self._take())
            if self._blocked is None and not self._complete:
                self._waiting_since = self._loop.time()
                return
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._stop_timer()
        if self._status and not self._complete and self._ends_with_connection(exc):
            self._complete = True
        self._wire.lost(self)
        self._wake()

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

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True
            self._reusable = self._parser.should_keep_alive()

    def _ends_with_connection(self, exc: Exception | None) -> bool:
        """Whether the body's length was told in no other way."""
        return exc is None and not any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)
