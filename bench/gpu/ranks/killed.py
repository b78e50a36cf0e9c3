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
from k25serve.bench.gpu.ranks.faults import FAULTS
from k25serve.bench.gpu.ranks.gpu_use import Use, left_by, use_by
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.server.engine.gpu_memory import MIB
from k25serve.server.engine.guardian import descendants
from k25serve.server.engine.holders import command_of
from k25serve.server.engine.shared_memory import FOLDER, mapped

VICTIMS = ("rank", "launcher")
GONE_S = 90.0
PROMPT = [list(range(40, 72))]


def run(setting: Setting) -> dict[str, Any]:
    """Three starts on the same ports. What is left, or does not start again, is told under `failed`.

    Raises ProofError where neither kill left nothing.
    """
    ports = free_ports(2)
    kills: dict[str, Any] = {}
    data: dict[str, Any] = {"kills": kills, "failed": {}}
    idle = {} if setting.on_cpu else use_by(())
    for victim in VICTIMS:
        try:
            with serving(setting, "kills", setting.ranks, at=ports) as stack:
                ready = round(stack.ready_s, 1)
                kills[victim] = {"ready_s": ready, **_kill(setting, stack, victim, idle)}
        except FAULTS as error:
            data["failed"][victim] = repr(error)
        print(f"{victim}: {data['failed'].get(victim) or kills[victim]}", flush=True)
    if not kills:
        raise ProofError("; ".join(f"{part}: {why}" for part, why in data["failed"].items()))
    try:
        with serving(setting, "kills", setting.ranks, at=ports) as stack:
            (answer,) = asyncio.run(answers(stack.engine_url, PROMPT, 16, at_once=1))
            data["next_start"] = {"ready_s": round(stack.ready_s, 1), "tokens": len(answer.ids)}
    except FAULTS as error:
        data["failed"]["next start"] = repr(error)
    return data


def _kill(setting: Setting, stack: Booted, victim: str, idle: dict[int, Use]) -> dict[str, Any]:
    asyncio.run(answers(stack.engine_url, PROMPT, 16, at_once=1))
    processes = [stack.pid, *descendants(stack.pid)]
    ranks = [pid for pid in processes if command_of(pid).startswith("sglang::scheduler")]
    if len(ranks) != setting.ranks:
        raise ProofError(f"{setting.ranks} ranks were started, {len(ranks)} processes are named sglang::scheduler")
    segments = [FOLDER / name for name in mapped(processes)]
    held = use_by(processes) if idle else {}
    pid = ranks[-1] if victim == "rank" else stack.pid
    started = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    _until(started, f"{victim} killed: processes left", lambda: _running(processes))
    seconds = time.monotonic() - started
    _until(started, f"{victim} killed: on the GPUs", lambda: left_by(processes, idle, held) if idle else [])
    _until(started, f"{victim} killed: shared memory", lambda: [path.name for path in segments if path.exists()])
    return {
        "processes": len(processes),
        "gone_s": round(seconds, 2),
        "gpu_mib": {str(index): one.ours // MIB for index, one in held.items()},
        "gpus_free_s": round(time.monotonic() - started, 2) if idle else None,
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


def markdown(data: dict[str, Any]) -> str:
    """A line a kill."""
    lines = []
    for victim, one in data["kills"].items():
        freed = "" if one["gpus_free_s"] is None else f", GPU memory free after {one['gpus_free_s']:.1f} s"
        lines.append(
            f"- SIGKILL of {'one rank' if victim == 'rank' else 'the launcher'}: all {one['processes']} processes gone "
            f"after {one['gone_s']:.1f} s{freed}, {one['segments_removed']} segments of shared memory removed"
        )
    lines += [f"- {part}: FAILED, {why.splitlines()[0]}" for part, why in data.get("failed", {}).items()]
    if (start := data.get("next_start")) is not None:
        lines.append(f"- the start after them, same ports: ready after {start['ready_s']:.0f} s, answers")
    return "\n".join(lines)
