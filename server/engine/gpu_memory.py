"""Memory of the GPUs that an engine will use, and who holds it, from nvidia-smi."""

import csv
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from k25serve.server.engine.holders import command_of

MIB = 2**20
QUERY_S = 30


@dataclass(frozen=True)
class Gpu:
    """One GPU; bytes."""

    index: int
    uuid: str
    free: int
    total: int


@dataclass(frozen=True)
class GpuHolder:
    """A process with memory on a GPU; bytes."""

    uuid: str
    pid: int
    held: int
    name: str

    def __str__(self) -> str:
        command = command_of(self.pid)
        return f"pid {self.pid} ({self.name if command == '?' else command}) {self.held // MIB:,} MiB"


def gpus() -> list[Gpu]:
    """Every GPU that tells its memory; empty where there is none, or no nvidia-smi."""
    rows = _ask("--query-gpu=index,uuid,memory.free,memory.total")
    return [
        Gpu(int(index), uuid, int(free) * MIB, int(total) * MIB)
        for index, uuid, free, total in (row for row in rows if len(row) == 4)
        if all(number.isdecimal() for number in (index, free, total))
    ]


def gpu_holders() -> list[GpuHolder]:
    """Processes with memory on a GPU, as far as the driver shows them: not those outside of a container."""
    rows = _ask("--query-compute-apps=gpu_uuid,pid,used_memory,name")
    return [
        GpuHolder(uuid, int(pid), int(used) * MIB, name)
        for uuid, pid, used, name in (row for row in rows if len(row) == 4)
        if pid.isdecimal() and used.isdecimal()
    ]


def used_gpus(found: Sequence[Gpu], visible: str | None, count: int) -> list[Gpu]:
    """The first `count` GPUs that CUDA will number, `visible` being CUDA_VISIBLE_DEVICES or None.

    Source: CUDA C++ programming guide, environment variables: indices or the beginnings of UUIDs.
    """
    if visible is None:
        return list(found[:count])
    chosen: list[Gpu] = []
    for word in map(str.strip, visible.split(",")):
        match = [gpu for gpu in found if word and (word == str(gpu.index) or gpu.uuid.startswith(word))]
        if not match:
            break  # CUDA ignores what follows an invalid one
        chosen.append(match[0])
    return chosen[:count]


def _ask(query: str) -> Iterable[list[str]]:
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=QUERY_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return csv.reader(answer.stdout.splitlines(), skipinitialspace=True)
