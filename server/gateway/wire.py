"""HTTP/1.1 to one engine: protocol-level, since a client library's layers cost more than all else here per chunk."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

from k25serve.server.gateway.connection import Connection, Headers, Sink, Through

# SGLang's uvicorn closes an idle connection after 5 s. A POST sent in that instant is lost and can't be repeated
# safely, so ours are dropped well before.
_KEEPALIVE_S = 2.0


class Answer:
    """An answer whose headers have come. Its reader closes it; closed early, the connection is cut at once."""

    def __init__(self, connection: Connection, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers
        self._connection: Connection | None = connection

    def header(self, name: bytes) -> bytes | None:
        return next((value for found, value in self.headers if found == name), None)

    @property
    def content_type(self) -> str:
        """Without its parameters, in lower case."""
        value = self.header(b"content-type") or b""
        return value.partition(b";")[0].strip().lower().decode("latin-1")

    async def pump(
        self, sink: Sink, deadline: Callable[[float], float], look_s: float, through: Through | None = None
    ) -> bytes:
        """Hands every read's bytes to `sink`, from within the read itself, but for the last, which it returns.

        `through` is asked first, where a read may be a whole chunk: it gets the bytes as they came, framing included.
        `deadline`: until when the next bytes have to come, given since when they are waited for; both on the event
        loop's clock. It is looked at each `look_s` seconds, so it may move.

        Raises:
            TimeoutError: none came by then.
            WireError: the connection broke first.
        """
        assert self._connection is not None
        return await self._connection.pump(sink, deadline, look_s, through)

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
        self._idle: deque[Connection] = deque()
        """The one that was used last is at the right."""
        self._open: set[Connection] = set()

    async def ask(
        self,
        method: str,
        path: str,
        headers: bytes,
        body: bytes,
        until: float,
        sent: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Sends a request and waits for the answer's headers. Cancelled, it cuts the connection.

        `headers` are whole lines; Host and Content-Length are added. `sent` is called when the request has left.

        Raises:
            ConnectionError: no connection; its subclass ConnectionAbortedError: none in time.
            TimeoutError: no headers by `until`.
            WireError: the connection broke.
        """
        connection = self._reusable() or await self._connect()
        head = f"{method} {path} HTTP/1.1\r\ncontent-length: {len(body)}\r\nhost: ".encode() + self._netloc + b"\r\n"
        try:
            status, got = await connection.ask(head + headers + b"\r\n", body, until, sent)
        except BaseException:
            connection.abort()
            raise
        return Answer(connection, status, got)

    def close(self) -> None:
        """Cuts every connection."""
        for connection in list(self._open):
            connection.abort()

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _reusable(self) -> Connection | None:
        """The connection that was used last. Those that have been idle too long are cut."""
        oldest = asyncio.get_running_loop().time() - _KEEPALIVE_S
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._idle.append, self._lost), self._host, self._port, ssl=self._tls
                )
        except TimeoutError as error:
            raise ConnectionAbortedError(f"no connection within {self._connect_timeout_s:g} s") from error
        except ConnectionError:
            raise
        except OSError as error:
            raise ConnectionRefusedError(str(error)) from error
        self._open.add(connection)
        return connection
