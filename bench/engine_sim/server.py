"""Runs the simulated engine on uvicorn, with the one thing that ASGI can't say: hanging up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_HANG_UP = "engine_sim.hang_up"


class HangUpProtocol(HttpToolsProtocol):
    """uvicorn's own protocol; hands every request a way to cut its connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {_HANG_UP: {"call": self.transport.abort}}


def hang_up(scope: Scope) -> None:
    """Closes the connection as a process that dies does.

    Raises:
        RuntimeError: another server runs the app.
    """
    extension = scope.get("extensions", {}).get(_HANG_UP)
    if extension is None:
        raise RuntimeError("this fault needs the simulated engine's own server: run it with serve() of this module")
    extension["call"]()


async def serve(app: ASGIApp, host: str, port: int, started: Callable[[int], None] | None = None) -> None:
    """Serves until cancelled, then drops every connection. `started` is called with the port; 0 takes any free one.

    Raises:
        OSError: the address is taken.
    """
    config = uvicorn.Config(app, http=HangUpProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HangUpProtocol(config, state, {}), host, port, backlog=2048)
    try:
        if started is not None:
            started(server.sockets[0].getsockname()[1])
        await server.serve_forever()
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        tasks = list(state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(app: ASGIApp) -> AsyncIterator[str]:
    """Serves on a free local port while the block runs; gives the root URL."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result))
    try:
        yield f"http://127.0.0.1:{await port}"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
