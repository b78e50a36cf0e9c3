"""A small streaming client: it notes when each read came and parses nothing until the load is over."""

import os
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from k25serve.bench.load.endpoint import Endpoint
from k25serve.server.errors import UserError

SHOWN = 300  # characters of a server's error
CONNECT_S = 10


@dataclass(slots=True)
class Reply:
    """One answer as it came. Times: time.perf_counter, seconds; `wall_*`: time.time."""

    sent: float
    wall_sent: float
    status: int | None = None
    reads: list[tuple[float, bytes]] = field(default_factory=list)
    ended: float = 0.0
    wall_ended: float = 0.0
    error: str = ""

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.reads)


class Client:
    """Asks one server. timeout_s: for a whole answer. key_env: the environment variable that holds the API key."""

    def __init__(self, endpoint: Endpoint, timeout_s: float, key_env: str | None = None) -> None:
        self.endpoint = endpoint
        headers = {"content-type": "application/json"}
        if key_env is not None:
            if not os.environ.get(key_env):
                raise UserError(f"--api-key-env {key_env}: that variable is not set; export the key in it")
            headers["authorization"] = f"Bearer {os.environ[key_env]}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
            headers=headers,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, body: bytes) -> Reply:
        """Posts a chat request. A failure becomes the reply's `error`: it is one request's."""
        reply = Reply(time.perf_counter(), time.time())
        try:
            async with self._session.post(self.endpoint.chat, data=body) as response:
                reply.status = response.status
                async for data in response.content.iter_any():
                    reply.reads.append((time.perf_counter(), data))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reply.error = f"{type(error).__name__}: {error}"[:SHOWN]
        reply.ended, reply.wall_ended = time.perf_counter(), time.time()
        if reply.status is not None and reply.status != 200:
            reply.error = f"HTTP {reply.status}: {reply.body.decode(errors='replace')[:SHOWN]}"
        return reply

    async def get_json(self, url: str) -> Any:
        """A document, or None where the server has none there."""
        try:
            async with self._session.get(url) as response:
                return orjson.loads(await response.read()) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, orjson.JSONDecodeError):
            return None
