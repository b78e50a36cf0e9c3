"""One worker, as supervise.py starts it: `... FD DRAIN_S NOTICE_S`, its settings as a line on stdin."""

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
    number, drain_s, notice_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    settings = GatewaySettings.model_validate_json(sys.stdin.buffer.readline())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signalled(settings, socket.socket(fileno=number), drain_s, notice_s))


async def _until_signalled(settings: GatewaySettings, listener: socket.socket, drain_s: int, notice_s: float) -> None:
    drain = Drain()
    listener.setblocking(False)
    app = create_app(settings, drain=drain)
    serving = asyncio.create_task(serve_on(listener, app, drain=drain, drain_s=drain_s, notice_s=notice_s))
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, serving.cancel)

    def supervisor_gone() -> None:
        loop.remove_reader(sys.stdin.fileno())
        serving.cancel()

    # Nothing more is ever written there: readable means that the other end is closed.
    loop.add_reader(sys.stdin.fileno(), supervisor_gone)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    main()
