"""What an engine left although its guardian is gone: processes killed by pid and waited for, shared memory removed."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from k25serve.server.engine.holders import command_of, writers
from k25serve.server.engine.shared_memory import remove, told
from k25serve.server.errors import StillHeld

POLL_S = 0.05
REAP_S = 30.0  # SIGKILL needs no consent; freeing the memory of a whole GPU takes a driver seconds


def reap(logs: Sequence[Path], seconds: float = REAP_S) -> list[int]:
    """Kill every process that writes to one of `logs`; return their pids once all are gone, and their segments too.

    Call it only while the engine port's lock is held: then no live engine can be among them.
    Raises StillHeld, naming them, where some are left after `seconds`: they hang in the kernel.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + seconds
    while left := writers(logs):
        killed.update(left)
        if time.monotonic() > deadline:
            named = ", ".join(f"{pid} ({command_of(pid)})" for pid in left)
            raise StillHeld(f"an engine's processes do not die after {seconds:g} s of SIGKILL: {named}; see dmesg")
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(POLL_S)
    remove(told(logs))
    return sorted(killed)
