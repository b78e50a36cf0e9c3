"""Steps and forward modes: decode, prefill, verify and draft kept apart; graphs split; nothing dropped in silence."""

from pathlib import Path

import pytest

from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import TraceError
from k25serve.bench.trace.modes import SpanRules
from k25serve.bench.trace.report import ModeReport, TraceReport
from k25serve.bench.trace.synthetic import GEMM, MARLIN, NCCL, NORM, Row, kernel, launch, span


def modes(report: TraceReport) -> dict[str, ModeReport]:
    return {mode.mode: mode for mode in report.ranks[0].modes}


def graph(at: float, correlation: int, *, launched: bool = True) -> list[Row]:
    """A replay of 100 us: 60 of GEMM, 30 of all-reduce, 10 of norm."""
    parts = ((GEMM, 0, 60), (NCCL, 60, 30), (NORM, 90, 10))
    kernels = [kernel(name, at + start, dur, correlation=correlation) for name, start, dur in parts]
    return [launch("cudaGraphLaunch", at - 5, correlation), *kernels] if launched else kernels


@pytest.mark.parametrize("launched", [True, False], ids=["with launches", "device events only"])
def test_graph_replays_are_steps_split_by_kernel_name(tmp_path: Path, launched: bool) -> None:
    rows = [*graph(100, 9, launched=launched), *graph(300, 12, launched=launched), kernel("frobnicate", 205, 1)]
    report = analyse([synthetic.write(tmp_path / "a.json", rows)])
    decode = modes(report)["decode"]
    assert decode.steps == 2
    assert {row.name: round(row.summed_ms * 1000) for row in decode.classes if row.launches} == {
        "gemm": 60,
        "all_reduce": 30,
        "norm": 10,
        "other": 0,
    }
    assert decode.step_ms_by_class == (
        (0.03, 0, 0, 0, 0.06, 0.01, 0, 0, 0, 0, 0.001),
        (0.03, 0, 0, 0, 0.06, 0.01, *[0] * 5),
    )
    assert decode.headline.share_of_kernel_sum == pytest.approx(60 / 201)
    assert decode.unattributed_launches == 0.5
    assert report.ranks[0].steps_from == "graph replays"
    assert any("marked no steps" in warning for warning in report.warnings)


def test_small_graphs_are_drafts_and_eager_model_work_is_prefill(tmp_path: Path) -> None:
    rows: list[Row] = []
    for cycle in range(3):
        at = 1000.0 * cycle
        rows += [
            launch("cudaGraphLaunch", at, 10 * cycle + 1),
            kernel("_fwd_kernel", at + 5, 20, correlation=10 * cycle + 1),
        ]
        rows.append(launch("cudaGraphLaunch", at + 50, 10 * cycle + 2))
        rows += [kernel(MARLIN, at + 60 + 10 * i, 10, correlation=10 * cycle + 2) for i in range(20)]
        rows += [
            launch("cudaLaunchKernel", at + 300, 10 * cycle + 3),
            kernel("argmax_kernel", at + 300, 3, correlation=10 * cycle + 3),
        ]
    rows += [launch("cudaLaunchKernel", 2500, 98), kernel("_fwd_kernel", 2500, 400, correlation=98)]
    found = modes(analyse([synthetic.write(tmp_path / "a.json", rows)]))
    assert {mode: one.steps for mode, one in found.items()} == {"target_verify": 3, "draft": 3, "extend": 1}
    assert found["target_verify"].kernel_sum_ms == pytest.approx(0.203)
    assert found["draft"].kernel_sum_ms == pytest.approx(0.020)
    assert found["extend"].kernel_sum_ms == pytest.approx(0.400)


def speculative_cycle(at: float, correlation: int) -> list[Row]:
    """One cycle of SGLang's EAGLE worker: the draft stage with its inner steps, verify, draft-extend, each 100 us."""
    stages = (("draft", "step[DRAFT bs=1]"), ("step[VERIFY bs=1]", ""), ("draft_extend", "step[DRAFT bs=1]"))
    rows = []
    for index, (outer, inner) in enumerate(stages):
        start, number = at + 100 * index, correlation + index
        rows.append(span(outer, start, 90))
        if inner:
            rows.append(span(inner, start + 10, 50))
        rows += [
            launch("cudaGraphLaunch", start + 20, number),
            kernel(GEMM, start + 500, 10 * (index + 1), correlation=number),
        ]
    return rows


def test_a_speculative_cycle_is_told_apart(tmp_path: Path) -> None:
    rows = [*speculative_cycle(0, 1), *speculative_cycle(1000, 11), span("step[EXTEND bs=1 toks=700]", 2000, 300)]
    rows += [launch("cudaLaunchKernel", 2010, 50), kernel("_fwd_kernel", 2100, 5000, correlation=50)]
    report = analyse([synthetic.write(tmp_path / "a.json", rows)])
    found = modes(report)
    assert {mode: (one.steps, round(one.kernel_sum_ms * 1000)) for mode, one in found.items()} == {
        "target_verify": (2, 20),
        "draft": (2, 10),
        "draft_extend": (2, 30),
        "extend": (1, 5000),
    }
    assert report.mode == "target_verify"
    assert found["target_verify"].period_ms == pytest.approx(1.0)  # the whole cycle
    assert found["extend"].period_ms is None


def test_work_belongs_to_the_step_that_launched_it_when_the_host_runs_ahead(tmp_path: Path) -> None:
    """The host is two steps ahead of the device, as an overlapping scheduler is."""
    rows = []
    for step in range(4):
        rows += [span(f"step[DECODE bs={step}]", 100 * step, 80), launch("cudaGraphLaunch", 100 * step + 1, step + 1)]
        rows += [kernel(GEMM, 1000 * step + 250, 10 * (step + 1), correlation=step + 1)]
        # Sampling is launched after the range, and before the next one.
        rows += [
            launch("cudaLaunchKernel", 100 * step + 90, 50 + step),
            kernel("argmax_kernel", 1000 * step + 300, 1, correlation=50 + step),
        ]
    decode = modes(analyse([synthetic.write(tmp_path / "a.json", rows)]))["decode"]
    assert [round(sum(step) * 1000) for step in decode.step_ms_by_class] == [11, 21, 31, 41]
    assert decode.launches == 2
    assert decode.host_launches == 2
    assert decode.period_ms == pytest.approx(1.0)


def test_vllm_ranges(tmp_path: Path) -> None:
    rows = [
        *_vllm(0, "execute_context_1(700)_generation_0(0)", 1),
        *_vllm(1000, "execute_context_0(0)_generation_2(2)", 2),
    ]
    rows += [
        *_vllm(2000, "execute_context_0(0)_generation_2(8)", 3),
        *_vllm(3000, "execute_context_1(9)_generation_2(2)", 4),
    ]
    found = modes(analyse([synthetic.write(tmp_path / "a.json", rows)]))
    assert {mode: one.steps for mode, one in found.items()} == {
        "decode": 1,
        "target_verify": 1,
        "mixed": 1,
        "extend": 1,
    }


def _vllm(at: float, name: str, correlation: int) -> list[Row]:
    return [
        span(name, at, 100),
        launch("cudaGraphLaunch", at + 5, correlation),
        kernel(GEMM, at + 50, 30, correlation=correlation),
    ]


@pytest.mark.parametrize(
    ("label", "mode"),
    [
        ("step[DECODE bs=8]", "decode"),
        ("step[TARGET_VERIFY bs=8]", "target_verify"),  # SGLang 0.5.17's word
        ("step[VERIFY bs=1 g_sq=4 g_sqsq=16 forward_id=3]", "target_verify"),
        ("step[DRAFT bs=1]", "draft"),
        ("step[DRAFT_LOOP raw_bs=1 bs=2 topk=1]", "draft"),
        ("step[DRAFT_EXTEND_V2 bs=1]", "draft_extend"),
        ("step[EXTEND bs=1 toks=120]", "extend"),
        ("step[MIXED bs=4]", "mixed"),
        ("step[IDLE bs=0]", "idle"),
        ("execute_context_0(0)_generation_0(0)", "idle"),
        ("scheduler.run_batch", None),
        ("draft_token", None),
    ],
)
def test_range_names(label: str, mode: str | None) -> None:
    assert SpanRules.load().mode(label) == mode


def test_own_range_name(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "a.json", [*_vllm(0, "my step 1", 1), *_vllm(500, "my step 2", 2)])
    assert modes(analyse([path], decode_span="^my step"))["decode"].steps == 2
    with pytest.raises(TraceError, match="not a regular expression"):
        analyse([path], decode_span="(")


def test_work_before_the_first_step_is_told_apart(tmp_path: Path) -> None:
    rows = [launch("cudaLaunchKernel", 1, 7), kernel(GEMM, 5, 40, correlation=7), kernel(GEMM, 50, 2)]
    rows += _vllm(100, "execute_context_0(0)_generation_1(1)", 8)
    report = analyse([synthetic.write(tmp_path / "a.json", rows)])
    assert report.ranks[0].outside_steps_ms == pytest.approx(0.042)
    assert modes(report)["decode"].kernel_sum_ms == pytest.approx(0.030)


def test_a_host_range_of_a_collective_adds_no_device_time(tmp_path: Path) -> None:
    rows = [
        *graph(100, 1),
        span("nccl:all_reduce", 100, 5000),
        Row("gpu_user_annotation", "nccl:all_reduce", 100, 5000, 7),
    ]
    decode = modes(analyse([synthetic.write(tmp_path / "a.json", rows)]))["decode"]
    assert decode.all_reduce_ms == pytest.approx(0.030)
    assert decode.all_reduce_calls == 1


def test_a_trace_of_the_cpu_gives_each_operators_own_time(tmp_path: Path) -> None:
    rows = [
        span("step[DECODE bs=1]", 0, 100),
        Row("cpu_op", "aten::linear", 10, 60, 1),
        Row("cpu_op", "aten::mm", 20, 40, 1),
        Row("cpu_op", "aten::argmax", 80, 10, 1),
    ]
    report = analyse([synthetic.write(tmp_path / "a.json", rows, synthetic.header(cpu=True))])
    decode = modes(report)["decode"]
    assert report.device == "cpu"
    assert {row.name: (row.launches, round(row.summed_ms * 1000)) for row in decode.classes if row.launches} == {
        "gemm": (2, 60),
        "sampling": (1, 10),
    }
    assert decode.busy_ms == decode.kernel_sum_ms


def test_steps_without_device_events_are_an_error(tmp_path: Path) -> None:
    rows = [span("step[DECODE bs=1]", 100, 10), kernel(GEMM, 5, 9, correlation=1), launch("cudaLaunchKernel", 1, 1)]
    with pytest.raises(TraceError, match="no device event lies in a step"):
        analyse([synthetic.write(tmp_path / "a.json", rows)])


def test_collectives_of_renamed_and_generic_kernels(tmp_path: Path) -> None:
    """NCCL's names differ by version, and a generic one is told by torch's word; bytes come from the same place."""
    told = {"Collective name": "allreduce", "In msg nelems": 7168, "dtype": "BFloat16"}
    rows = [
        span("step[DECODE bs=1]", 0, 50),
        launch("cudaGraphLaunch", 5, 1),
        Row("cpu_op", "nccl:all_reduce", 0, 900, 1),
    ]
    rows += [
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 10, 1, correlation=1),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 20, 2, correlation=1),
        kernel("nccldevkernel_allreduce_x", 30, 4, correlation=1),
        kernel("ncclDevKernel_Generic_4", 40, 8, correlation=1, **told),
        kernel("ncclDevKernel_AllGather_RING_LL", 50, 16, correlation=1),
        kernel("ncclDevKernel_Generic_4", 70, 32, correlation=1),
    ]
    decode = modes(analyse([synthetic.write(tmp_path / "a.json", rows)]))["decode"]
    (row,) = decode.all_reduce
    assert (row.family, row.calls, row.bytes_per_call) == ("nccl", 4, 14_336)
    by_class = {one.name: one.summed_ms for one in decode.classes if one.launches}
    assert by_class == pytest.approx({"all_reduce": 0.015, "collective": 0.048})
