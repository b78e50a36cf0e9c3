"""Starts the workers, keeps their number, hands signals on, and stops them.

One worker is the rule: it carries far more streams than one engine has. More are for several large engines. Each has
its own readiness, breaker and queue, so a limit is divided between them and fairness holds within each.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.multiprocess import mark_process_dead
from pydantic import SecretStr

from k25serve.server.gateway.run import listen
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.workers.shared_metrics import VARIABLE, clear

_log = logging.getLogger(__name__)
_RESTART_S = 0.5
_KILL_AFTER_S = 10


async def run_workers(
    settings: GatewaySettings,
    host: str,
    port: int,
    started: Callable[[int], None] | None = None,
    *,
    drain_s: int = 30,
    notice_s: float = 0.0,
) -> None:
    """Serves with `settings.workers` processes until cancelled; a worker that dies is replaced.

    `started` is called with the port once connections are taken; the workers answer them as they come up.

    The metrics' directory is that of the variable PROMETHEUS_MULTIPROC_DIR, else a new one, in memory if there is
    /dev/shm.

    Raises:
        ListenError: the address is taken or isn't this machine's.
    """
    given = os.environ.get(VARIABLE)
    directory = Path(given or tempfile.mkdtemp(prefix="k25serve-metrics-", dir=_memory()))
    clear(directory)
    listener = listen(host, port)
    listener.listen(2048)
    if started is not None:
        started(listener.getsockname()[1])
    pool = _Pool(settings, listener, directory, drain_s, notice_s)
    try:
        await pool.run()
    finally:
        listener.close()
        if given is None:
            shutil.rmtree(directory, ignore_errors=True)


class _Pool:
    def __init__(
        self, settings: GatewaySettings, listener: socket.socket, directory: Path, drain_s: int, notice_s: float
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._directory = directory
        self._drain_s = drain_s
        self._notice_s = notice_s
        self._workers: set[asyncio.subprocess.Process] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        if self._settings.keys_file is not None:
            loop.add_signal_handler(signal.SIGHUP, self._signal, signal.SIGHUP)
        keepers = [asyncio.create_task(self._keep(), name=f"worker {i}") for i in range(self._settings.workers)]
        try:
            await asyncio.wait(keepers, return_when=asyncio.FIRST_EXCEPTION)
            for keeper in keepers:
                if keeper.done():
                    keeper.result()
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            worker = await self._start()
            self._workers.add(worker)
            try:
                code = await worker.wait()
            except asyncio.CancelledError:
                await self._stop(worker)
                raise
            finally:
                self._workers.discard(worker)
                # Counters stay, since requests were served; gauges of a process that is gone don't.
                mark_process_dead(worker.pid, str(self._directory))  # type: ignore[no-untyped-call]
            _log.warning("gateway worker %d ended with exit code %s; starting another", worker.pid, code)
            await asyncio.sleep(_RESTART_S)

    async def _start(self) -> asyncio.subprocess.Process:
        number = self._listener.fileno()
        timing = (str(self._drain_s), str(self._notice_s))
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "k25serve.server.gateway.workers", str(number), *timing),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(number,),
            env={**os.environ, VARIABLE: str(self._directory)},
        )
        assert worker.stdin is not None
        # Through a pipe: keys of the engines don't belong on a command line.
        # It stays open: its end tells a worker that this process is gone.
        worker.stdin.write(orjson.dumps(self._settings.model_dump(), default=_plain) + b"\n")
        with contextlib.suppress(ConnectionError):
            await worker.stdin.drain()
        return worker

    async def _stop(self, worker: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            worker.terminate()
        try:
            async with asyncio.timeout(self._notice_s + self._drain_s + _KILL_AFTER_S):
                await worker.wait()
        except TimeoutError:
            worker.kill()
            await worker.wait()

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(number)


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _plain(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
