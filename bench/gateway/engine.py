"""`python -m k25serve.bench.gateway.engine PORT`: a paced engine that costs little and says when it wrote.

bench/engine_sim is the faithful one. This one does only what a benchmark needs: every frame leaves in one write, on
time, without Nagle's delay, with its CLOCK_MONOTONIC time in it; the end of a tagged request is recorded.
"""

import asyncio
import re
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httptools
import orjson
import uvloop

from k25serve.bench.gateway import frames
from k25serve.bench.gateway.directive import Directive, find

RECORD_PATH = "/_bench/record"
_GENERATION = "/v1/chat/completions"
_ASKS_STREAM = re.compile(rb'"stream"\s*:\s*true')
_ASKS_USAGE = re.compile(rb'"include_usage"\s*:\s*true')
_ASKS_SPEC = re.compile(rb'"return_spec_tokens_details"\s*:\s*true')
_MODEL = {"id": "bench", "object": "model", "created": 0, "owned_by": "sglang", "root": "bench"}
# What routers ask a worker before they use it.
_DOCUMENTS: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [_MODEL | {"max_model_len": 262_144}]},
    "/get_model_info": {"model_path": "bench", "tokenizer_path": "bench", "is_generation": True},
    "/model_info": {"model_path": "bench", "tokenizer_path": "bench", "is_generation": True},
    "/get_server_info": {"model_path": "bench", "served_model_name": "bench", "tp_size": 1, "dp_size": 1},
    "/server_info": {"model_path": "bench", "served_model_name": "bench", "tp_size": 1, "dp_size": 1},
    "/v1/loads": {"loads": [{"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": 0, "num_total_tokens": 0}]},
}
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nx-bench: kept\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@dataclass
class Seen:
    """A tagged request, as it reached the engine. Times: CLOCK_MONOTONIC, nanoseconds."""

    attempts: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    freed: int | None = None
    """The connection was lost, or an abort came, before the answer was complete; whichever was first."""
    finished: int | None = None


class Engine:
    """Holds what all connections share."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.rids: dict[str, str] = {}
        self.before, self.after = frames.chunk_template()
        self.chunk_head = b"%x\r\n" % (len(self.before) + 20 + len(self.after)) + self.before
        self.chunk_tail = self.after + b"\r\n"

    def chunk(self) -> bytes:
        return b"%s%020d%s" % (self.chunk_head, time.monotonic_ns(), self.chunk_tail)

    def arrived(self, directive: Directive, body: bytes, headers: dict[str, str]) -> None:
        seen = self.seen.setdefault(directive.tag, Seen())
        seen.attempts += 1
        seen.body, seen.headers = body.decode(), headers
        rid = orjson.loads(body).get("rid")
        if isinstance(rid, str):
            self.rids[rid] = directive.tag

    def freed(self, tag: str) -> None:
        seen = self.seen.get(tag)
        if seen is not None and seen.freed is None and seen.finished is None:
            seen.freed = time.monotonic_ns()

    def finished(self, tag: str) -> None:
        if tag in self.seen and self.seen[tag].freed is None:
            self.seen[tag].finished = time.monotonic_ns()


class Connection(asyncio.Protocol):
    """One keep-alive connection, without pipelining."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._timer: asyncio.TimerHandle | None = None
        self._directive = Directive()
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._busy and self._directive.tag:
            self._engine.freed(self._directive.tag)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserInvalidMethodError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._parts: list[bytes] = []
        self._headers: dict[str, str] = {}

    def on_url(self, url: bytes) -> None:
        self._url = url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        url, body = urlsplit(self._url), b"".join(self._parts)
        if url.path == _GENERATION:
            self._generate(body)
        elif url.path == RECORD_PATH:
            self._whole(200, orjson.dumps(self._engine.seen.get(parse_qs(url.query)["tag"][0], Seen())))
        elif url.path == "/abort_request":
            self._engine.freed(self._engine.rids.get(orjson.loads(body).get("rid"), ""))
            self._whole(200, b"")
        else:
            self._whole(200, orjson.dumps(_DOCUMENTS.get(url.path, {})))

    def _generate(self, body: bytes) -> None:
        directive = self._directive = find(body)
        self._busy = True
        if directive.tag:
            self._engine.arrived(directive, body, self._headers)
        spec = _ASKS_SPEC.search(body) is not None
        if directive.status != 200:
            self._end(directive.status, frames.error(directive.status))
        elif _ASKS_STREAM.search(body):
            self._tail = frames.tail(usage=_ASKS_USAGE.search(body) is not None, spec=spec)
            self._written = 0
            self._start = self._loop.time() + directive.first
            self._next()
        else:
            whole = frames.whole(directive.size, spec=spec)
            self._timer = self._loop.call_later(directive.first, self._end, 200, whole)

    def _next(self) -> None:
        """Waits for the next write's time; times are counted from the start, so that lateness doesn't add up."""
        at = self._start + min(self._written, self._directive.chunks - 1) * self._directive.pace
        if at > self._loop.time():
            self._timer = self._loop.call_at(at, self._write)
        else:
            self._write()

    def _write(self) -> None:
        if self._written == self._directive.chunks:
            self._busy = False
            self._engine.finished(self._directive.tag)
            self._transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(self._tail), self._tail))
            return
        chunk = self._engine.chunk()
        self._transport.write(_STREAM_HEAD + chunk if self._written == 0 else chunk)
        self._written += 1
        if self._written == self._directive.chunks:
            # Its own read for whoever forwards it.
            self._timer = self._loop.call_later(self._directive.pace, self._write)
        else:
            self._next()

    def _end(self, status: int, body: bytes) -> None:
        self._busy = False
        self._engine.finished(self._directive.tag)
        self._whole(status, body)

    def _whole(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d Bench\r\ncontent-type: application/json\r\nx-bench: kept\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % (status, len(body)) + body)


async def serve(port: int) -> None:
    """Serves on 127.0.0.1 until cancelled."""
    engine = Engine()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(engine), "127.0.0.1", port, backlog=2048)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
