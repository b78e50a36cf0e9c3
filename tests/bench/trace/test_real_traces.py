"""Traces that real engines wrote, cut to a few steps: the layout, the ranges and the names are theirs.

1795962240.98: SGLang 0.5.23 (torch 2.14.1) on a CPU, the packaged tiny model with EAGLE-3, three draft steps; one
prefill and the first two cycles of a request, taken with /start_profile, activities CPU.
hopper: torch 2.11 on one H200, whole: a small transformer, one prefill and three decode steps in SGLang's ranges,
decode replayed from a CUDA graph, sampling launched after the range; one NCCL rank, so its all-reduces run no kernel.
"""

import gzip
import json
from pathlib import Path

import pytest

from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.report import TraceReport

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def sglang_cpu() -> TraceReport:
    return analyse([FIXTURES / "1795962240.98-TP-0.trace.json.gz"])


def test_sglang_on_the_cpu_steps(sglang_cpu: TraceReport) -> None:
    modes = {mode.mode: mode for mode in sglang_cpu.ranks[0].modes}
    assert {mode: one.steps for mode, one in modes.items()} == {
        "target_verify": 2,
        "draft": 2,
        "draft_extend": 3,
        "extend": 1,
    }
    assert sglang_cpu.mode == "target_verify"
    assert sglang_cpu.ranks[0].steps_from == "ranges of the engine"
    # From the trace by hand: verify ranges start at 44.686 and 72.268 ms, so the cycle is about 27.6 ms.
    assert modes["target_verify"].period_ms == pytest.approx(27.6, abs=0.3)
    # A tiny model's three drafts (one layer each) and its verification (two layers) differ in size.
    assert modes["draft"].launches < modes["target_verify"].launches


def test_sglang_on_the_cpu_is_told_as_such(sglang_cpu: TraceReport) -> None:
    assert sglang_cpu.device == "cpu"
    assert sglang_cpu.world_size == 1
    rank = sglang_cpu.ranks[0]
    assert rank.rank == "rank-0"  # from distributedInfo
    assert rank.unclassified_share < 0.01
    assert rank.skipped_events == 0
    assert any("no device in the trace" in warning for warning in sglang_cpu.warnings)
    for mode in rank.modes:
        assert 0 < mode.kernel_sum_ms == pytest.approx(mode.busy_ms)
        assert mode.busy_ms <= mode.span_ms
        gemm = next(row for row in mode.classes if row.name == "gemm")
        assert gemm.launches >= 5


@pytest.fixture(scope="module")
def hopper() -> TraceReport:
    return analyse([FIXTURES / "hopper-TP-0.trace.json.gz"])


def test_hopper_steps(hopper: TraceReport) -> None:
    modes = {mode.mode: mode for mode in hopper.ranks[0].modes}
    assert {mode: one.steps for mode, one in modes.items()} == {"decode": 3, "extend": 1}
    assert hopper.device == "NVIDIA H200"
    assert hopper.warnings == ()
    # A decode step: the copy in and the copy out, the argmax, and one launch for the whole graph.
    assert modes["decode"].host_launches == 4
    assert modes["extend"].host_launches == modes["extend"].launches
    decode = {row.name: row.launches for row in modes["decode"].classes if row.launches}
    assert (decode["attention"], decode["gemm"], decode["norm"], decode["sampling"]) == (3, 13, 7, 1)
    assert modes["decode"].all_reduce_calls == 0


def test_hopper_loses_no_device_time(hopper: TraceReport) -> None:
    """Against the sum over the file's device events, parsed as plain JSON."""
    with gzip.open(FIXTURES / "hopper-TP-0.trace.json.gz") as file:
        rows = [
            row for row in json.load(file)["traceEvents"] if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        ]
    rank = hopper.ranks[0]
    assert sum(mode.launches * mode.steps for mode in rank.modes) == pytest.approx(len(rows)) == 150
    summed = sum(mode.kernel_sum_ms * mode.steps for mode in rank.modes)
    assert summed == pytest.approx(sum(row["dur"] for row in rows) / 1000)
    assert rank.outside_steps_ms == 0
    assert rank.unclassified == ()
