"""The engine's keeper: a process that outlives the launcher just long enough to leave nothing behind.

    python -P -m k25serve.server.engine.guardian LIFELINE_FD STOP_SECONDS COMMAND...

It starts COMMAND and adopts whatever the engine's processes leave orphaned. When COMMAND ends, when it gets SIGTERM,
or when the launcher closes LIFELINE_FD (as the kernel does for a launcher killed with SIGKILL), it sends SIGTERM to
COMMAND, waits STOP_SECONDS or for a second SIGTERM, then sends SIGKILL to every descendant by pid, and removes the
shared memory that they had.
Exit code: COMMAND's, 128 + n for signal n.
Standard library only, so that it starts at once and stays small.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

from k25serve.server.engine.shared_memory import Watch, remove

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.05
KILL_S = 10.0  # SIGKILL needs no consent; the limit only covers a process stuck in the kernel


def descendants(root: int) -> list[int]:
    """Pids below `root`, from /proc: children before grandchildren. Zombies are left out."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def send(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to each pid that still exists."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def run(lifeline: int, stop_seconds: float, command: list[str]) -> int:
    """Keep `command` until it ends or the lifeline closes; return its exit code."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)

    # If this process itself is killed, the kernel kills the engine's main process; the launcher kills the others.
    child = subprocess.Popen(command, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    watch = Watch()
    while child.poll() is None:
        ready, _, _ = select.select([lifeline, wake_read], [], [], watch.pause())
        if lifeline in ready:
            break
        if wake_read in ready and any(number != signal.SIGCHLD for number in os.read(wake_read, 64)):
            break
        if not watch.pause():
            watch.look(lambda: descendants(os.getpid()))
    watch.look(lambda: descendants(os.getpid()))
    _end(child, stop_seconds, wake_read)
    remove(watch.names)
    code = child.poll()
    if code is None:
        code = -signal.SIGKILL
    return 128 - code if code < 0 else code


def _end(child: subprocess.Popen[bytes], stop_seconds: float, wake_read: int) -> None:
    if child.poll() is None:
        child.terminate()
    deadline = time.monotonic() + stop_seconds
    while child.poll() is None and time.monotonic() < deadline:
        ready, _, _ = select.select([wake_read], [], [], POLL_S)
        if ready and any(number != signal.SIGCHLD for number in os.read(wake_read, 64)):
            break
    deadline = time.monotonic() + KILL_S
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(POLL_S)
    if left:
        print(f"guardian: still there {KILL_S:g} s after SIGKILL: pids {left}", file=sys.stderr, flush=True)
        return  # waiting on would hang as they do
    child.wait()
    _reap_adopted()


def _reap_adopted() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
