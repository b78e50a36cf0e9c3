"""`python -m k25serve.bench.gateway.raw PORT UPSTREAM`: the yardstick, the least that an ASGI proxy can be.

Raw ASGI, aiohttp, bytes passed on as they come, the upstream call raced against the client's leaving. It checks,
reads, counts and rewrites nothing.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send


def create_app(upstream: str) -> ASGIApp:
    """Forwards every POST to `upstream`."""
    session: aiohttp.ClientSession

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal session
        if scope["type"] == "lifespan":
            async with _session() as session:
                await receive()
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        work = asyncio.create_task(_forward(session, upstream + scope["path"], body, send))
        left = asyncio.create_task(_left(receive))
        await asyncio.wait((work, left), return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        left.cancel()
        await asyncio.gather(work, left, return_exceptions=True)

    return app


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        yield session


async def _forward(session: aiohttp.ClientSession, url: str, body: bytes, send: Send) -> None:
    async with session.post(url, data=body, headers={"content-type": "application/json"}) as response:
        headers = [(b"content-type", response.headers["content-type"].encode())]
        if response.content_length is not None:
            headers.append((b"content-length", str(response.content_length).encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        async for data in response.content.iter_any():
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


if __name__ == "__main__":
    uvicorn.run(
        create_app(sys.argv[2]),
        port=int(sys.argv[1]),
        http="httptools",
        loop="uvloop",
        ws="none",
        access_log=False,
        log_level="warning",
    )
