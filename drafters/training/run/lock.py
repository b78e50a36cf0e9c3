"""One run a folder. The kernel lets go of the lock when its holder ends, however it ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError

FILE = "run.lock"
POLL_S = 0.2
ORPHANS_S = 30.0  # a killed run's own workers end a little after it


@contextmanager
def only_run(run: Path, patience_s: float = ORPHANS_S) -> Iterator[None]:
    """Hold RUN/run.lock. One whose holder is dead is waited for, then taken over. Raises TrainingError."""
    path = run / FILE
    with path.open("a+", encoding="ascii") as file:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                if Path(f"/proc/{owner}").exists() or time.monotonic() > deadline:
                    raise TrainingError(
                        f"--out {run}: another run (pid {owner}) works there; wait for it, or give another --out"
                    ) from None
                time.sleep(POLL_S)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
