"""Where a running engine leaves its files: its log, the one before it, the lock that keeps a second one away."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from k25serve.server.config import Profile
from k25serve.server.engine.leftovers import reap
from k25serve.server.engine.process import GUARDIAN_MARGIN_S
from k25serve.server.errors import PreflightError

POLL_S = 0.1


def log_path(profile: Profile) -> Path:
    """Where the engine's output goes: $XDG_STATE_HOME/k25serve/<profile>-<port>.log."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "k25serve" / f"{profile.name}-{profile.engine.port}.log"


@dataclass(frozen=True)
class EngineState:
    """What a start may use: a fresh log's path, and the lock's descriptor, which the guardian keeps until its end."""

    log: Path
    lock: int


@contextmanager
def engine_state(profile: Profile) -> Iterator[EngineState]:
    """Hold the engine port's lock; what an engine on it left running is killed, the last run's log kept as `.log.1`.

    Where the launcher before this one was killed, its guardian still stops the engine: that is waited for.
    Raises PreflightError where the folder cannot be used, or another k25serve holds the port.
    """
    log = log_path(profile)
    lock = log.parent / f"{profile.engine.port}.lock"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and not log.is_file():
            raise PreflightError(f"{log}: is not a regular file; remove it, or set XDG_STATE_HOME to another folder")
        held = lock.open("a+", encoding="ascii")
    except OSError as error:
        raise PreflightError(f"{error.filename}: {error.strerror}; set XDG_STATE_HOME to a folder of yours") from None
    with held:
        _take(held, lock, profile)
        reap(sorted(log.parent.glob(f"*-{profile.engine.port}.log*")))
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        yield EngineState(log, held.fileno())


def _take(held: TextIO, lock: Path, profile: Profile) -> None:
    deadline = time.monotonic() + profile.engine.stop_timeout_s + GUARDIAN_MARGIN_S
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.seek(0)
            owner = held.read().strip()
            if time.monotonic() < deadline and not Path(f"/proc/{owner or 'self'}").exists():
                time.sleep(POLL_S)
                continue
            raise PreflightError(
                f"engine.port {profile.engine.port}: another k25serve (pid {owner or 'unknown'}) starts or runs an "
                f"engine there ({lock}); stop it, or pass --set engine.port=PORT"
            ) from None
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        return
