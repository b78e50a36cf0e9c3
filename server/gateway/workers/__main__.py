"""One worker: `python -m k25serve.server.gateway.workers FD DRAIN_S`, its settings on stdin. See supervise.py."""

import asyncio
import contextlib
import signal
import socket
import sys

import uvloop

from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.run import serve_on
from k25serve.server.gateway.settings import GatewaySettings


def main() -> None:
    number, drain_s = int(sys.argv[1]), int(sys.argv[2])
    settings = GatewaySettings.model_validate_json(sys.stdin.buffer.read())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signalled(settings, socket.socket(fileno=number), drain_s))


async def _until_signalled(settings: GatewaySettings, listener: socket.socket, drain_s: int) -> None:
    drain = Drain()
    listener.setblocking(False)
    serving = asyncio.create_task(serve_on(listener, create_app(settings, drain=drain), drain=drain, drain_s=drain_s))
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    main()
