"""A load client that costs little: one request at a time on a keep-alive connection, httptools, no tasks for chunks."""

import asyncio
import socket
import time
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import httptools
import orjson

from k25serve.bench.gateway.frames import STAMP


@dataclass
class Exchange:
    """One request's answer. Times: CLOCK_MONOTONIC, nanoseconds."""

    sent: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    first: int = 0
    """The body's first byte."""
    ended: int = 0
    reads: int = 0
    frames: int = 0
    delays: list[int] = field(default_factory=list)
    """From the engine's write to our read, for each stamped frame but the first."""
    longest_gap: int = 0
    body: bytes = b""
    """Kept only if asked for."""
    last: int = 0


class Client(asyncio.Protocol):
    """A connection. `ask` may be cancelled; the connection is of no use after that."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._answer: asyncio.Future[Exchange] | None = None
        self._first_read: asyncio.Event = asyncio.Event()
        self._keep = False
        self._closing = False

    @classmethod
    async def connect(cls, url: str, authorization: str = "") -> Self:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        transport, client = await asyncio.get_running_loop().create_connection(cls, parts.hostname, parts.port)
        client.transport = transport
        client._host = parts.netloc.encode()
        client._more = f"authorization: {authorization}\r\n".encode() if authorization else b""
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    transport: asyncio.Transport
    _host: bytes
    _more: bytes

    async def ask(self, body: bytes, *, keep: bool = False, headers: bytes = b"") -> Exchange:
        """Posts a chat request and waits for the whole answer. Raises ConnectionError when the peer hangs up."""
        self._answer = asyncio.get_running_loop().create_future()
        self._first_read.clear()
        self._keep = keep
        self._exchange = Exchange(sent=time.monotonic_ns())
        self.transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\n%s%s"
            b"content-length: %d\r\n\r\n%s" % (self._host, self._more, headers, len(body), body)
        )
        return await self._answer

    async def begun(self) -> None:
        """Waits until the current answer's body has begun."""
        await self._first_read.wait()

    def leave(self, *, reset: bool = False) -> int:
        """Hangs up; returns when, in nanoseconds."""
        self._closing = True
        at = time.monotonic_ns()
        if reset:
            self.transport.abort()
        else:
            self.transport.close()
        return at

    def data_received(self, data: bytes) -> None:
        self._now = time.monotonic_ns()
        self._parser.feed_data(data)

    def eof_received(self) -> None:
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the gateway hung up"))
            if self._closing:
                # Nobody awaits it any more, and it is no surprise.
                self._answer.exception()

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._exchange is not None
        self._exchange.headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._exchange is not None
        self._exchange.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        exchange, now = self._exchange, self._now
        assert exchange is not None
        stamps = [now - int(stamp) for stamp in STAMP.findall(body)]
        if exchange.first:
            exchange.delays += stamps
            exchange.longest_gap = max(exchange.longest_gap, now - exchange.last)
        else:
            exchange.first = now
            exchange.delays += stamps[1:]
            self._first_read.set()
        exchange.last = now
        exchange.frames += len(stamps)
        exchange.reads += 1
        if self._keep:
            exchange.body += body

    def on_message_complete(self) -> None:
        exchange = self._exchange
        assert exchange is not None
        assert self._answer is not None
        exchange.ended = self._now
        if not self._answer.done():
            self._answer.set_result(exchange)


async def get_json(url: str, path: str) -> object:
    """A GET on a connection of its own."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    body = await reader.readexactly(int(length))
    writer.close()
    return orjson.loads(body)
