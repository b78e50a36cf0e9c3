"""Memory of GPUs that others may use as well: what processes held that are gone, told apart from what others took."""

import time
from collections.abc import Collection
from dataclasses import dataclass

from k25serve.server.engine.gpu_memory import MIB, gpu_holders, gpus

SLACK = 512 * MIB  # what a driver may keep or give back meanwhile
TRIES, PAUSE_S = 20, 0.1


@dataclass(frozen=True)
class Use:
    """Of one GPU, bytes: in use, and of that held by the processes in question and by others that the driver shows."""

    used: int
    ours: int
    others: int

    @property
    def unseen(self) -> int:
        """Held by no process that the driver shows: its own, what is not freed, programs outside of a container."""
        return self.used - self.ours - self.others


def use_by(pids: Collection[int]) -> dict[int, Use]:
    """By index, every GPU now; empty where there is none."""
    holders = gpu_holders()
    for _ in range(TRIES):
        found, then, holders = gpus(), holders, gpu_holders()
        if then == holders:
            break
        # Somebody took or freed memory between the questions, so the answers don't fit each other.
        time.sleep(PAUSE_S)
    return {
        gpu.index: Use(
            gpu.total - gpu.free,
            sum(one.held for one in holders if one.uuid == gpu.uuid and one.pid in pids),
            sum(one.held for one in holders if one.uuid == gpu.uuid and one.pid not in pids),
        )
        for gpu in found
    }


def left_by(pids: Collection[int], idle: dict[int, Use], running: dict[int, Use]) -> list[str]:
    """What killed processes still take, a text each: those that hold memory, and memory that is held by nobody shown.

    idle, running: from before their start, and from before the kill. What others took since counts as theirs. Where
    the driver did not show the processes while they ran, memory is compared with `idle`, and the text says so.
    """
    found = [str(one) for one in gpu_holders() if one.pid in pids]
    after = use_by(pids)
    for index in idle:
        now, then = after.get(index), running.get(index)
        if now is None:
            found.append(f"GPU {index}: nvidia-smi does not tell its memory")
            continue
        held = then.ours if then is not None else 0
        before = then if then is not None and held else idle[index]
        grown = now.unseen - before.unseen
        # More than they held is not theirs, whoever has it.
        kept = min(grown, held) if held else grown
        if kept > SLACK:
            found.append(f"GPU {index}: {kept // MIB:,} MiB {_told(held)}; {_others(now, before)}")
    return found


def _told(held: int) -> str:
    if held:
        return f"of the {held // MIB:,} that they held not freed, held by no process that nvidia-smi shows"
    return "more in use than before the start, nvidia-smi does not show whose"


def _others(now: Use, before: Use) -> str:
    return f"other programs hold {now.others // MIB:,} MiB, {before.others // MIB:,} before"
