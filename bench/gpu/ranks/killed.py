"""Step `kills`: SIGKILL of one rank and of the launcher, their parent: nothing is left, and the next start serves."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from k25serve.bench.gpu.booted import Booted, ProofError, free_ports
from k25serve.bench.gpu.greedy import answers
from k25serve.bench.gpu.ranks.engines import serving
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.server.engine.gpu_memory import MIB, gpu_holders, gpus
from k25serve.server.engine.guardian import descendants
from k25serve.server.engine.holders import command_of
from k25serve.server.engine.shared_memory import FOLDER, mapped

GONE_S = 90.0
SLACK = 512 * MIB  # what a driver may keep or give back meanwhile
PROMPT = [list(range(40, 72))]


def run(setting: Setting) -> dict[str, Any]:
    """Three starts on the same ports. Raises ProofError naming what is left, or what does not start again."""
    ports, kills = free_ports(2), {}
    before = {gpu.index: gpu.free for gpu in gpus()} if not setting.on_cpu else {}
    for victim in ("rank", "launcher"):
        with serving(setting, "kills", setting.ranks, at=ports) as stack:
            ready = round(stack.ready_s, 1)
            kills[victim] = {"ready_s": ready, **_kill(setting, stack, victim, before)}
            print(f"{victim}: {kills[victim]}", flush=True)
    with serving(setting, "kills", setting.ranks, at=ports) as stack:
        (answer,) = asyncio.run(answers(stack.engine_url, PROMPT, 16, at_once=1))
        return {"kills": kills, "next_start": {"ready_s": round(stack.ready_s, 1), "tokens": len(answer.ids)}}


def _kill(setting: Setting, stack: Booted, victim: str, before: dict[int, int]) -> dict[str, Any]:
    asyncio.run(answers(stack.engine_url, PROMPT, 16, at_once=1))
    processes = [stack.pid, *descendants(stack.pid)]
    ranks = [pid for pid in processes if command_of(pid).startswith("sglang::scheduler")]
    if len(ranks) != setting.ranks:
        raise ProofError(f"{setting.ranks} ranks were started, {len(ranks)} processes are named sglang::scheduler")
    segments = [FOLDER / name for name in mapped(processes)]
    pid = ranks[-1] if victim == "rank" else stack.pid
    started = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    _until(started, f"{victim} killed: processes left", lambda: _running(processes))
    seconds = time.monotonic() - started
    _until(started, f"{victim} killed: on the GPUs", lambda: _on_gpus(processes, before))
    _until(started, f"{victim} killed: shared memory", lambda: [path.name for path in segments if path.exists()])
    return {
        "processes": len(processes),
        "gone_s": round(seconds, 2),
        "gpus_free_s": round(time.monotonic() - started, 2) if before else None,
        "segments_removed": len(segments),
    }


def _until(started: float, what: str, left: Any) -> None:
    while found := left():
        if time.monotonic() - started > GONE_S:
            raise ProofError(f"{what} after {GONE_S:g} s: {found}")
        time.sleep(0.1)


def _running(pids: list[int]) -> list[str]:
    """Those that still run; zombies hold nothing."""
    found = []
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if stat.rpartition(")")[2].split()[0] != "Z":
            found.append(f"{pid} ({command_of(pid)})")
    return found


def _on_gpus(pids: list[int], before: dict[int, int]) -> list[str]:
    """Holders among `pids`, and GPUs that have less free memory than before the first start."""
    if not before:
        return []
    holders = [str(one) for one in gpu_holders() if one.pid in pids]
    short = [gpu for gpu in gpus() if gpu.free < before.get(gpu.index, 0) - SLACK]
    return holders + [f"GPU {gpu.index}: {(before[gpu.index] - gpu.free) // MIB:,} MiB not freed" for gpu in short]


def markdown(data: dict[str, Any]) -> str:
    """A line a kill."""
    lines = []
    for victim, one in data["kills"].items():
        freed = "" if one["gpus_free_s"] is None else f", GPU memory free after {one['gpus_free_s']:.1f} s"
        lines.append(
            f"- SIGKILL of {'one rank' if victim == 'rank' else 'the launcher'}: all {one['processes']} processes gone "
            f"after {one['gone_s']:.1f} s{freed}, {one['segments_removed']} segments of shared memory removed"
        )
    next_start = data["next_start"]
    return "\n".join(
        [*lines, f"- the start after them, same ports: ready after {next_start['ready_s']:.0f} s, answers"]
    )
