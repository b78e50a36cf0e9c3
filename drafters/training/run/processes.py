"""Processes by pid and start time, so that a pid that was given out anew is never taken for an old one."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL_S = 0.1


@dataclass(frozen=True)
class Process:
    """started: clock ticks after boot (/proc/PID/stat, field 22)."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """A zombie is not."""
        return _started(self.pid) == self.started

    def end(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL to it and all below it where it is still there after `seconds`."""
        deadline = time.monotonic() + seconds
        self._send(signal.SIGTERM)
        while self.alive and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if self.alive:
            for process in tree(self.pid):
                process._send(signal.SIGKILL)
        while self.alive:
            time.sleep(POLL_S)

    def _send(self, number: signal.Signals) -> None:
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process that has this pid now."""
        started = _started(pid)
        return None if started is None else cls(pid, started)


def start(command: Sequence[str], env: Mapping[str, str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that a terminal's Ctrl-C reaches this process alone, which then stops it in order.

    It gets SIGTERM when this process ends, even by SIGKILL. Call it from the main thread: the kernel means the thread.
    """
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def follow() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before the kernel was asked
            os._exit(1)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **env},
        start_new_session=True,
        preexec_fn=follow,
    )


def tree(root: int) -> list[Process]:
    """`root` and all below it that run now."""
    found = (Process.of(pid) for pid in (root, *_descendants(root)))
    return [process for process in found if process is not None]


def _started(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found, queue = list[int](), [root]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found
