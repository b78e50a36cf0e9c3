"""Starting pinned processes, and reading what they use, from /proc (Linux)."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_STOP_S = 10.0


class FailedError(Exception):
    """A process that didn't start, didn't answer or didn't end its work."""


@contextlib.contextmanager
def running(command: Sequence[str], cpus: set[int], log: Path, env: Mapping[str, str]) -> Iterator[int]:
    """A process on `cpus` alone while the block runs; gives its id. Its output goes to `log`."""
    own = os.sched_getaffinity(0)
    with log.open("ab") as out:
        # A child inherits it before its first thread starts, so that pools are sized by it.
        os.sched_setaffinity(0, cpus)
        try:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=dict(env), start_new_session=True
            )
        finally:
            os.sched_setaffinity(0, own)
    try:
        yield process.pid
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
                break


def wait_for_port(port: int, pid: int, timeout_s: float, log: Path) -> float:
    """Seconds until something listens.

    Raises:
        FailedError: nothing did in time, or the process ended; with the log's end.
    """
    began = time.monotonic()
    while time.monotonic() - began < timeout_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return time.monotonic() - began
        if _state(pid) in ("", "Z"):
            break
        time.sleep(0.02)
    raise FailedError(f"nothing listens on port {port}; {log} ends with: {log.read_text(errors='replace')[-500:]}")


def cpu_seconds(pid: int) -> float:
    """CPU time that a process and its descendants have used: the kernel's own clock, not 10 ms ticks."""
    # The clock of a whole process is made from its id so (clock_getcpuclockid in glibc).
    return sum(time.clock_gettime((~member << 3) | 2) for member in _tree(pid))


def machine_cpu_seconds() -> float:
    """CPU time that all processes of the machine have used, and what the host took away, in ticks of 10 ms."""
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident memory of a process and its descendants, MB (10^6 bytes)."""
    return sum(_rss_kib(member) for member in _tree(pid)) * 1024 / 1e6


def _rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _tree(pid: int) -> list[int]:
    members = [pid]
    for member in members:
        for task in Path(f"/proc/{member}/task").iterdir():
            members += [int(child) for child in (task / "children").read_text().split()]
    return members


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
