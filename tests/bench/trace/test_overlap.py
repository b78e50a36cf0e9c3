"""Sum, union and exposed time: streams that run at once are never counted twice, whatever the order of events."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.classify import Classifier
from k25serve.bench.trace.events import DeviceEvents, KernelName
from k25serve.bench.trace.intervals import Timeline
from k25serve.bench.trace.measure import measure
from k25serve.bench.trace.report import ClassRow, ModeReport, TraceReport
from k25serve.bench.trace.steps import Steps
from k25serve.bench.trace.synthetic import GEMM, NCCL, Row, kernel

FOUR_CLASSES = [Classifier.load().classify(KernelName(one)) for one in (NCCL, GEMM, "_fwd_kernel", "Memset (Device)")]
PARALLEL = [
    kernel(GEMM, 0, 50, stream=7, correlation=1),
    kernel(NCCL, 40, 40, stream=20, correlation=2),
    kernel(NCCL, 60, 40, stream=21, correlation=3),
]


def only_mode(report: TraceReport) -> ModeReport:
    (mode,) = report.ranks[0].modes
    return mode


def row(mode: ModeReport, name: str) -> ClassRow:
    return next(one for one in mode.classes if one.name == name)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("marked", [False, True])
def test_two_all_reduce_streams_and_one_of_gemms(tmp_path: Path, seed: int, marked: bool) -> None:
    rows: list[Row] = list(PARALLEL)
    if marked:
        rows += [
            synthetic.span("step[DECODE bs=1]", -10, 5),
            *(synthetic.launch("cudaLaunchKernel", -9, i) for i in (1, 2, 3)),
        ]
    random.Random(seed).shuffle(rows)
    mode = only_mode(analyse([synthetic.write(tmp_path / "a.json", rows)]))
    mine = row(mode, "all_reduce")
    assert mine.summed_ms == pytest.approx(0.080)
    assert mine.union_ms == pytest.approx(0.060)
    assert mine.exposed_ms == pytest.approx(0.050)
    assert mine.hidden_ms == pytest.approx(0.010)
    assert mode.span_ms == pytest.approx(0.100)
    assert mode.headline.share_of_step == pytest.approx(0.60)
    assert mode.headline.exposed_share_of_step == pytest.approx(0.50)
    assert mode.headline.share_of_kernel_sum == pytest.approx(80 / 130)
    assert mode.headline.share_of_busy == pytest.approx(0.60)


def test_copies_do_not_hide_an_all_reduce_but_computation_does(tmp_path: Path) -> None:
    rows = [
        kernel(NCCL, 0, 100, stream=1),
        Row("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 0, 60, 2, {"stream": 2}),
        kernel("_fwd_kernel", 70, 10, stream=3),
        kernel(GEMM, 75, 10, stream=4),
    ]
    mode = only_mode(analyse([synthetic.write(tmp_path / "a.json", rows)]))
    assert row(mode, "all_reduce").exposed_ms == pytest.approx(0.085)
    # Two computations at once: neither is waited for while the other runs.
    assert row(mode, "attention").exposed_ms == pytest.approx(0.005)
    assert row(mode, "gemm").exposed_ms == pytest.approx(0.005)
    assert row(mode, "copy").exposed_ms == pytest.approx(0.060)


def test_gaps_count_to_the_step_but_to_no_kernel(tmp_path: Path) -> None:
    rows = [kernel(GEMM, 0, 10), kernel(NCCL, 30, 10), kernel(GEMM, 60, 40)]
    mode = only_mode(analyse([synthetic.write(tmp_path / "a.json", rows)]))
    assert mode.gap_ms == pytest.approx(0.040)
    assert mode.headline.share_of_busy == pytest.approx(10 / 60)
    assert mode.headline.share_of_step == pytest.approx(0.10)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 40), st.integers(0, 3)),
        min_size=1,
        max_size=60,
    )
)
def test_union_against_counting_every_moment(intervals: list[tuple[int, int, int]]) -> None:
    start, length, step = (np.array(column, dtype=np.int64) for column in zip(*intervals, strict=True))
    found = Timeline(start, start + length, step, 4).covered(np.ones(len(start), dtype=bool))
    for one in range(4):
        moments = {t for s, d, k in intervals if k == one for t in range(s, s + d)}
        assert found[one] == len(moments)


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_shares_never_pass_one(rng: random.Random, count: int) -> None:
    start = np.array([rng.randrange(1000) for _ in range(count)], dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    device = DeviceEvents(
        start=start,
        end=start + np.array([rng.randrange(1, 300) for _ in range(count)]),
        name=np.array([rng.randrange(4) for _ in range(count)], dtype=np.int32),
        stream=zeros.astype(np.int32),
        correlation=zeros,
        nbytes=zeros,
        calls=np.ones(count, dtype=np.int8),
    )
    steps = Steps(("decode",), ("",), zeros[:1], zeros.astype(np.int32), zeros.astype(np.int8), "test")
    times = measure(device, FOUR_CLASSES, steps)
    assert (times.union <= times.summed).all()
    assert (times.exposed <= times.union).all()
    assert (times.union <= times.busy).all()
    assert times.busy[0] <= min(times.span[0], times.kernel_sum[0])
    assert times.summed.sum() == times.kernel_sum[0]
