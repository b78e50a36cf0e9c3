"""Segments in /dev/shm that an engine's processes leave behind: noted while they are mapped, removed when all are gone.

SGLang ends its own processes with SIGKILL, so nobody unlinks them: with several ranks 25 MB stay at each stop, until
/dev/shm is full and a start dies with SIGBUS (SGLang 0.5.23, utils/stale_shm_cleanup.py, which cleans its own CI only).
Standard library only, for the guardian.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

FOLDER = Path("/dev/shm")
# SGLang's, NCCL's and multiprocessing's. Whatever else is mapped from there, a model's weights say, stays.
NAME = r"(?:sgl_shm_|sglang_loads_|nccl-|sem\.mp-)[\w.-]+"
MAPPED = re.compile(rf" (\d+) +{re.escape(str(FOLDER))}/")  # inode and path; a semaphore's is that of its first name
WORD = "guardian: shared memory "
LOG_BYTES = 4 * 2**20  # segments are made while the engine loads


def segments() -> dict[int, str]:
    """Names in /dev/shm that may be an engine's, by inode."""
    try:
        with os.scandir(FOLDER) as entries:
            return {entry.inode(): entry.name for entry in entries if re.fullmatch(NAME, entry.name)}
    except OSError:
        return {}  # no such folder, no segments


def mapped(pids: Iterable[int]) -> set[str]:
    """Names of the segments that these processes have mapped now."""
    names, found = segments(), set[str]()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                inodes = {int(match[1]) for line in file if (match := MAPPED.search(line))}
        except OSError:
            continue  # it ended while we looked
        found.update(names[inode] for inode in inodes & names.keys())
    return found


def told(logs: Iterable[Path]) -> set[str]:
    """Names that guardians noted at the beginning of engines' logs."""
    found: set[str] = set()
    for log in logs:
        with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
            for line in file.read(LOG_BYTES).decode(errors="replace").splitlines():
                if line.startswith(WORD):
                    found.update(name for name in line.removeprefix(WORD).split() if re.fullmatch(NAME, name))
    return found


def remove(names: Iterable[str]) -> None:
    """Unlink these segments, where they are still there and ours."""
    for name in names:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            (FOLDER / name).unlink()


class Watch:
    """Looks for a process tree's segments every `period_s` seconds."""

    def __init__(self, period_s: float = 2.0) -> None:
        self.names: set[str] = set()
        self._period, self._next = period_s, 0.0

    def pause(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._next - time.monotonic())

    def look(self, pids: Callable[[], Iterable[int]]) -> None:
        """Note what is new, in the log too, for who comes after a guardian that is killed.

        pids: asked for only where /dev/shm holds names that are not ours yet, so that an engine at work is let alone.
        """
        self._next = time.monotonic() + self._period
        there = set(segments().values())
        new = mapped(pids()) - self.names if there - self.names else set()
        if new:
            self.names |= new
            print(WORD + " ".join(sorted(new)), flush=True)
