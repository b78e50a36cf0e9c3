"""Run by HolisticTraceAnalysis's own interpreter: its answers for a set of traces, as JSON on stdout.

    python hta_child.py '{"0": "rank0.json", "1": "rank1.json"}'

A script, not a module of the package: it imports nothing of ours, since HTA needs pandas < 3 and other pins.
"""

import contextlib
import importlib
import json
import os
import sys
import time
from importlib.metadata import version
from typing import Any


def answers(files: dict[int, str]) -> dict[str, Any]:
    """Seconds to load, and HTA's tables: kernel types over all ranks, communication overlapped, time by rank."""
    analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
    began, used = time.monotonic(), os.times()
    loaded = analysis(trace_files=files)
    seconds = time.monotonic() - began
    kernel_types, _ = loaded.get_gpu_kernel_breakdown(visualize=False)
    return {
        "version": version("HolisticTraceAnalysis"),
        "load_seconds": seconds,
        "load_cpu_seconds": sum(os.times()[:4]) - sum(used[:4]),
        "kernel_types_us": dict(zip(kernel_types["kernel_type"], map(float, kernel_types["sum"]), strict=True)),
        "overlap_percent": loaded.get_comm_comp_overlap(visualize=False).to_dict("records"),
        "by_rank": loaded.get_temporal_breakdown(visualize=False).to_dict("records"),
        "ranks": sorted(loaded.t.traces),
        "first_kernels": _first_kernels(loaded),
    }


def _first_kernels(loaded: Any) -> list[dict[str, float]]:
    """Start and length of the first device events as HTA holds them, to see its rounding."""
    frame = next(iter(loaded.t.traces.values()))
    rows = frame[frame["stream"] >= 0].sort_values("ts").head(3)
    return [{"ts": float(ts), "dur": float(dur)} for ts, dur in zip(rows["ts"], rows["dur"], strict=True)]


def main() -> None:
    """Answer on stdout; what HTA prints goes to stderr."""
    files = {int(rank): path for rank, path in json.loads(sys.argv[1]).items()}
    with contextlib.redirect_stdout(sys.stderr):
        found = answers(files)
    print(json.dumps(found, default=float))


if __name__ == "__main__":
    main()
