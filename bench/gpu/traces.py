"""Stage `trace`: torch.profiler traces of a running arm, told by `bench trace`, and a small piece kept."""

import asyncio
import gzip
import json
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k25serve.bench.gpu.booted import Booted, ProofError
from k25serve.bench.gpu.greedy import answers
from k25serve.bench.gpu.prompts import random_prompts
from k25serve.bench.gpu.rank_model import VOCABULARY

WAIT_S = 120.0
STEP = "step["  # how SGLang names the range of a forward pass


@dataclass(frozen=True)
class Load:
    """What runs while `steps` forward passes are recorded: `batch` random prompts of `prefix` tokens, `tokens` more."""

    batch: int
    prefix: int
    tokens: int
    steps: int
    vocabulary: int
    activities: tuple[str, ...]


K25 = Load(batch=4, prefix=1024, tokens=160, steps=12, vocabulary=VOCABULARY, activities=("CPU", "GPU"))
TINY = Load(batch=1, prefix=40, tokens=120, steps=12, vocabulary=2000, activities=("CPU",))
"""For the packaged model on a CPU; the ids above are its special tokens."""


def record(engine: Booted, folder: Path, ranks: int, load: Load = K25) -> list[Path]:
    """Profile some steps of a running batch; the trace files, one a rank. Raises ProofError where they don't come."""
    folder.mkdir(parents=True)
    prompts = random_prompts(load.batch, load.prefix, load.vocabulary)
    asyncio.run(answers(engine.engine_url, prompts, 16, at_once=load.batch))
    # Python's own calls would make ten times the file, and ranks that wait for each other's hosts.
    body = {
        "output_dir": str(folder),
        "num_steps": load.steps,
        "activities": list(load.activities),
        "with_stack": False,
    }
    _post(f"{engine.engine_url}/start_profile", body)
    asyncio.run(answers(engine.engine_url, prompts, load.tokens, at_once=load.batch))
    deadline = time.monotonic() + WAIT_S
    while len(found := sorted(folder.rglob("*.trace.json.gz"))) < ranks or not _settled(found):
        if time.monotonic() > deadline:
            raise ProofError(f"{engine.name}: {len(found)} traces after {WAIT_S} s, {ranks} expected in {folder}")
        time.sleep(0.5)
    return found


def _settled(files: list[Path]) -> bool:
    sizes = [path.stat().st_size for path in files]
    time.sleep(1)
    return sizes == [path.stat().st_size for path in files]


def _post(url: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        answer.read()


def trim(source: Path, target: Path, steps: int) -> int:
    """Keep the last whole `steps` steps but one, without Python's own calls, and all metadata; how many events.

    Raises ProofError where the trace has fewer steps.
    """
    trace = json.loads(gzip.decompress(source.read_bytes()))
    events = trace["traceEvents"]
    starts = sorted(
        event["ts"] for event in events if event.get("cat") == "user_annotation" and event["name"].startswith(STEP)
    )
    if len(starts) <= steps:
        raise ProofError(f"{source}: {len(starts)} steps, more than {steps} expected")
    first, end = starts[-steps - 1], starts[-1]
    trace["traceEvents"] = [
        event
        for event in events
        if event.get("ph") == "M" or (event.get("cat") != "python_function" and first <= event.get("ts", 0) < end)
    ]
    target.write_bytes(gzip.compress(json.dumps(trace).encode(), mtime=0))
    return len(trace["traceEvents"])
