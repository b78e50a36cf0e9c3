"""The real stack as a user starts it: `k25serve serve`, on free ports. A boot takes 55 to 90 s, so tests share them."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from k25serve.server.engine.guardian import descendants

READY_S = 300
STOP_S = 60
COMMAND = Path(sys.executable).with_name("k25serve")


@dataclass(frozen=True)
class Served:
    """A running `k25serve`: its launcher, its two addresses and what it printed so far."""

    launcher: "subprocess.Popen[str]"
    engine_url: str
    gateway_url: str
    output: Path
    ready_s: float

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def processes(self) -> list[int]:
        """Pids of the launcher and of everything below it."""
        return [self.launcher.pid, *descendants(self.launcher.pid)]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


def running(pids: list[int]) -> list[int]:
    """Those that still run: zombies hold nothing."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if runs(pid)]


def wait_gone(pids: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := running(pids):
        assert time.monotonic() < deadline, f"still running after {seconds} s: {left}"
        time.sleep(0.1)


@contextmanager
def boot(folder: Path, *arguments: str, ready_line: str = "gateway: http", at: Sequence[int] = ()) -> Iterator[Served]:
    """Start `k25serve ARGUMENTS`, wait until it says that it is ready; stop it with SIGTERM after.

    at: the engine's and the gateway's port; free ones otherwise.
    """
    engine_port, gateway_port = at or free_ports(2)
    output = folder / "output.txt"
    ports = ("--set", f"engine.port={engine_port}", "--set", f"gateway.port={gateway_port}")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), "COLUMNS": "200"}
    started = time.monotonic()
    with output.open("w") as file:
        launcher = subprocess.Popen(
            [COMMAND, *arguments, *ports], stdout=file, stderr=subprocess.STDOUT, env=environment, text=True
        )
    try:
        while not re.search(ready_line, output.read_text()):
            assert launcher.poll() is None, f"k25serve ended with {launcher.returncode}:\n{output.read_text()}"
            assert time.monotonic() - started < READY_S, f"not ready after {READY_S} s:\n{output.read_text()}"
            time.sleep(0.2)
        urls = (f"http://127.0.0.1:{port}" for port in (engine_port, gateway_port))
        yield Served(launcher, *urls, output, time.monotonic() - started)
    finally:
        processes = [launcher.pid, *descendants(launcher.pid)]
        if launcher.poll() is None:
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(STOP_S)
        wait_gone(processes, STOP_S)
