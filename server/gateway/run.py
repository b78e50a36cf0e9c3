"""Runs an ASGI app on uvicorn, inside a running event loop."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from k25serve.server.errors import PreflightError
from k25serve.server.gateway.drain import Drain

# Longer than any client keeps an idle connection, so that it is never ours that closes under a request.
_KEEPALIVE_S = 75
_BACKLOG = 2048


class ListenError(PreflightError):
    """The gateway can't listen where it was told to."""


class _Server(uvicorn.Server):
    """Leaves signals to the process's owner and says when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            # What is there now stays. Looking through it again and again would hold up every stream for milliseconds.
            gc.freeze()
            self._on_started()


async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    started: Callable[[int], None] | None = None,
    *,
    drain: Drain | None = None,
    drain_s: int = 30,
    notice_s: float = 0.0,
) -> None:
    """Serves `app` until cancelled; then stops listening, lets running requests finish for `drain_s`, and ends.

    Before it stops listening, `drain` begins and `notice_s` seconds pass, so that a load balancer can look elsewhere.
    A second cancellation ends it at once. `started` is called with the port when it listens; port 0 takes any free one.

    Raises:
        ListenError: the address is taken or isn't this machine's.
    """
    listener = listen(host, port)
    try:
        await serve_on(listener, app, started, drain=drain, drain_s=drain_s, notice_s=notice_s)
    finally:
        listener.close()


async def serve_on(
    listener: socket.socket,
    app: ASGIApp,
    started: Callable[[int], None] | None = None,
    *,
    drain: Drain | None = None,
    drain_s: int = 30,
    notice_s: float = 0.0,
) -> None:
    """Serves on a bound socket, which stays the caller's; see serve."""
    bound: int = listener.getsockname()[1]
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEPALIVE_S,
        timeout_graceful_shutdown=drain_s,
        backlog=_BACKLOG,
    )
    server = _Server(config, lambda: started(bound) if started is not None else None)
    serving = asyncio.create_task(server.serve(sockets=[listener]), name=f"serve :{bound}")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        if drain is not None:
            drain.begin()
        try:
            await asyncio.sleep(notice_s)
            server.should_exit = True
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = server.force_exit = True
            await serving
        raise


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, not listening yet.

    Raises:
        ListenError: the address is taken or isn't this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends each write at once; else it waits up to 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ListenError(
            f"can't listen on {host} port {port}: {error.strerror}. Stop what listens there, or choose another port."
        ) from error
    listener.setblocking(False)
    return listener
