"""Where a running engine leaves its files: its log, the one before it, the lock that keeps a second one away."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k25serve.server.config import Profile
from k25serve.server.errors import PreflightError


def log_path(profile: Profile) -> Path:
    """Where the engine's output goes: $XDG_STATE_HOME/k25serve/<profile>-<port>.log."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "k25serve" / f"{profile.name}-{profile.engine.port}.log"


@contextmanager
def engine_state(profile: Profile) -> Iterator[Path]:
    """Hold the engine port's lock; yield a fresh log's path, the last run's log beside it as `.log.1`.

    Raises PreflightError where the folder cannot be used, or another k25serve holds the port.
    """
    log = log_path(profile)
    lock = log.parent / f"{profile.engine.port}.lock"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and not log.is_file():
            raise PreflightError(f"{log}: is not a regular file; remove it, or set XDG_STATE_HOME to another folder")
        held = lock.open("a", encoding="ascii")
    except OSError as error:
        raise PreflightError(f"{error.filename}: {error.strerror}; set XDG_STATE_HOME to a folder of yours") from None
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PreflightError(
                f"engine.port {profile.engine.port}: another k25serve starts or runs an engine there ({lock}); "
                "stop it, or pass --set engine.port=PORT"
            ) from None
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        yield log
