"""The measurement: every contender at every shape, its output compared with float64 where that fits."""

import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k25serve.bench.kernels.contenders import Contender
from k25serve.bench.kernels.shapes import DRAFT_TOKENS, HEADS, LATENT, SCALING, SHAPES, Inputs, Shape, inputs_of
from k25serve.bench.kernels.timing import copy_bandwidth, launch_floor_us, median_us

if TYPE_CHECKING:
    import torch

SOURCES = ("triton.py", "fp8.py", "tiles.py", "launch.py", "workspace.py")


def measure(
    contenders: dict[str, Contender], command: str, shapes: Iterable[Shape] = SHAPES, heads: int = HEADS
) -> dict[str, Any]:
    """Everything that a result file needs, as plain numbers and text: see `record` for what it becomes."""
    import torch
    import triton

    started, clock = datetime.now(UTC), time.monotonic()
    bandwidth = copy_bandwidth()
    rows = []
    for shape in shapes:
        inputs = inputs_of(shape, heads)
        times = {name: _time(make, inputs) for name, make in contenders.items()}
        roof = shape.cache_bytes / bandwidth * 1e6
        rows.append({"batch": shape.batch, "prefix": shape.prefix, "roof_us": roof, "contenders": times})
        print(shape, {name: round(found["us"], 1) for name, found in times.items()}, flush=True)
        del inputs
        torch.cuda.empty_cache()
    return {
        "command": command,
        "started": started.isoformat(),
        "seconds": round(time.monotonic() - clock, 1),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__},
        "machine": machine(),
        "inputs": sources(),
        "data": {
            "heads": heads,
            "draft_tokens": DRAFT_TOKENS,
            "copy_bytes_per_second": bandwidth,
            "launch_floor_us": launch_floor_us(),
            "shapes": rows,
        },
    }


def _time(make: Contender, inputs: Inputs) -> dict[str, float]:
    import torch

    out = torch.full((*inputs.q.shape[:2], LATENT), float("nan"), device="cuda", dtype=torch.bfloat16)
    launch = make(inputs, out)
    us = median_us(launch)
    return {"us": us, "error": relative_error(out, inputs)}


def relative_error(out: "torch.Tensor", inputs: Inputs) -> float:
    """Relative L2 distance of the first and the last request's output to float64; NaN where any number is NaN."""
    import torch

    from k25serve.patches.kernels.mla_verify.naive import mla_verify_naive

    batch = inputs.kv_indptr.shape[0] - 1
    bounds = inputs.kv_indptr.tolist()
    if out.isnan().any():
        return float("nan")
    worst = 0.0
    for request in {0, batch - 1}:
        rows = slice(request * DRAFT_TOKENS, (request + 1) * DRAFT_TOKENS)
        slots = inputs.kv_indices[bounds[request] : bounds[request + 1]]
        wanted = mla_verify_naive(
            inputs.q[rows],
            inputs.k_extend[rows],
            inputs.kv_buffer,
            torch.tensor([0, slots.shape[0]], dtype=torch.int32),
            slots,
            SCALING,
        )
        worst = max(worst, float((out[rows].double() - wanted).norm() / wanted.norm()))
    return worst


def machine() -> dict[str, Any]:
    """Where it runs, with the fields of a result file, by the standard library alone."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    query = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [[part.strip() for part in line.split(",")] for line in gpus]
    return {
        "cpu": names[0].partition(":")[2].strip() if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "gpus": [row[0] for row in rows],
        "driver": rows[0][1],
    }


def sources() -> dict[str, str]:
    """SHA-256 of the kernel's files, so that a result tells which kernel it timed."""
    import k25serve.patches.kernels.mla_verify as package

    folder = Path(package.__file__).parent
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in SOURCES}
