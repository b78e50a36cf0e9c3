"""Who holds a port or a log: pids found in /proc by what they have open, never by name."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

LISTEN = "0A"  # net/tcp_states.h
COMMAND_AT_MOST = 80


def listener(port: int, proc: Path = Path("/proc")) -> int | None:
    """Pid of a process that listens on TCP `port`, on any address; None where there is none that we may see."""
    wanted = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not wanted:
        return None
    for pid, folder in _processes(proc):
        try:
            if any(link_target(file) in wanted for file in (folder / "fd").iterdir()):
                return pid
        except OSError:  # another account's, or it ended
            continue
    return None


def listened(port: int, proc: Path = Path("/proc")) -> bool:
    """Whether anybody listens on TCP `port`, seen or not."""
    return bool(_listening(port, proc))


def writers(logs: Sequence[Path], proc: Path = Path("/proc")) -> list[int]:
    """Pids whose standard output or error is one of `logs`, this process and its parents left out.

    The engine's log is the one thing that all of its processes share: they may leave its process group and session,
    be adopted by another parent and overwrite their names and environments.
    """
    wanted = {_identity(log) for log in logs} - {None}
    own = _with_parents(os.getpid(), proc)
    return [
        pid
        for pid, folder in _processes(proc)
        if pid not in own and any(_identity(folder / "fd" / number) in wanted for number in ("1", "2"))
    ]


def command_of(pid: int, proc: Path = Path("/proc")) -> str:
    """The command line of a process, cut; `?` where it cannot be read."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
    except OSError:
        return "?"
    text = " ".join(words) or "?"
    return text if len(text) <= COMMAND_AT_MOST else f"{text[:COMMAND_AT_MOST]}..."


def _listening(port: int, proc: Path) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # no IPv6
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _processes(proc: Path) -> Iterator[tuple[int, Path]]:
    return ((int(folder.name), folder) for folder in proc.iterdir() if folder.name.isdigit())


def link_target(link: Path) -> str:
    """Where a link in /proc leads; empty where the file has been closed meanwhile."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _with_parents(pid: int, proc: Path) -> set[int]:
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            stat = (proc / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return found
