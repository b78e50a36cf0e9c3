"""The stack as a user starts it, `k25serve serve` or `engine`, on free ports, until it says that it is ready."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from k25serve.server.errors import UserError

STOP_S = 60.0
K25SERVE = (sys.executable, "-P", "-m", "k25serve.server.main")
LAST_LINES = 40
PATCHES = "k25serve: patches in place: "


class ProofError(UserError):
    """A stage could not be run to its end."""


@dataclass(frozen=True)
class Booted:
    """A running stack. `log`: the engine's; `ready_s`: seconds from its start to its first token."""

    name: str
    engine_url: str
    gateway_url: str
    log: Path
    ready_s: float
    pid: int


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


@contextmanager
def boot(
    name: str,
    profile: str,
    overrides: Sequence[str],
    folder: Path,
    *,
    ready_s: float,
    given_up: Event,
    at: Sequence[int] = (),
) -> Iterator[Booted]:
    """`k25serve serve` with a profile and `--set` values; stopped with SIGTERM at the end.

    at: ports of the engine and the gateway; free ones otherwise.

    Raises ProofError with the end of what was printed where it ends, isn't ready after `ready_s` seconds, or
    `given_up` is set before.
    """
    engine_port, gateway_port = at or free_ports(2)
    ports = (f"engine.port={engine_port}", f"gateway.port={gateway_port}")
    sets = [part for value in (*overrides, *ports) for part in ("--set", value)]
    command = [*K25SERVE, "serve", "--profile", profile, *sets]
    log = folder / f"{name}.log"
    state = folder / f"{name}-state"
    with _started(command, log, {"XDG_STATE_HOME": str(state), "COLUMNS": "200"}) as (process, started):
        try:
            _wait(process, log, re.compile("gateway: http"), started + ready_s, given_up)
            engine, gateway = (f"http://127.0.0.1:{port}" for port in (engine_port, gateway_port))
            yield Booted(name, engine, gateway, _engine_log(state), time.monotonic() - started, process.pid)
        finally:
            for found in state.rglob("*.log"):
                shutil.copy(found, folder / f"{name}-{found.name}")


@contextmanager
def boot_bare(
    name: str,
    profile: str,
    overrides: Sequence[str],
    folder: Path,
    *,
    ready_s: float,
    given_up: Event,
    env: Mapping[str, str],
) -> Iterator[Booted]:
    """The engine alone, by the command that `k25serve engine --dry-run` prints, so without the checks of checkpoints.

    For models whose weights are random. Raises ProofError as `boot` does.
    """
    (port,) = free_ports(1)
    sets = [part for value in (*overrides, f"engine.port={port}") for part in ("--set", value)]
    planned = subprocess.run(
        [*K25SERVE, "engine", "--dry-run", "--profile", profile, *sets], capture_output=True, text=True, check=False
    )
    if planned.returncode:
        raise ProofError(f"{name}: {planned.stderr.strip()}")
    words = shlex.split(planned.stdout.replace("\\\n", " "))
    first = next(index for index, word in enumerate(words) if "=" not in word)
    settings = dict(word.partition("=")[::2] for word in words[:first])
    log = folder / f"{name}.log"
    with _started(words[first:], log, settings | dict(env)) as (process, started):
        _wait(process, log, re.compile("The server is fired up"), started + ready_s, given_up)
        url = f"http://127.0.0.1:{port}"
        yield Booted(name, url, "", log, time.monotonic() - started, process.pid)


@contextmanager
def _started(
    command: Sequence[str], log: Path, env: Mapping[str, str]
) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            start_new_session=True,
        )
    try:
        yield process, started
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        finally:
            # Its session is its own: whatever it left behind is in it.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _engine_log(state: Path) -> Path:
    try:
        (found,) = state.rglob("*.log")
    except ValueError:
        raise ProofError(f"{state} holds no engine log, or several") from None
    return found


def patches_in_place(stack: Booted) -> dict[str, Any]:
    """What the launch says of its patches: each process with its rows and their facts. Raises ProofError."""
    for line in stack.log.read_text(errors="replace").splitlines():
        _, told, text = line.partition(PATCHES)
        if told:
            return dict(json.loads(text))
    raise ProofError(f"{stack.name}: its log does not say which patches are in place")


def _wait(
    process: "subprocess.Popen[bytes]", log: Path, ready: re.Pattern[str], deadline: float, given_up: Event
) -> None:
    while not ready.search(log.read_text(errors="replace")):
        if process.poll() is not None:
            raise ProofError(f"{log.stem}: ended with {process.returncode}:\n{_end_of(log)}")
        if time.monotonic() > deadline or given_up.is_set():
            raise ProofError(f"{log.stem}: not ready in time:\n{_end_of(log)}")
        given_up.wait(0.2)


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
