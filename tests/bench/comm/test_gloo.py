"""Real collectives between two and four processes on the CPU."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from k25serve.bench import provenance
from k25serve.bench.cli import app
from k25serve.bench.comm import sweep
from k25serve.bench.comm.report import CommReport, Plan
from k25serve.server.errors import UserError

PLAN = Plan(backend="gloo", operations=("all_reduce", "all_to_all"), sizes=(64, 14_336, 65_536), samples=3, calls=2)
STUB = str(Path(__file__).with_name("stub_worker.py"))


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_measure_both_operations(ranks: int) -> None:
    """Each rank also checks its sums and senders: worker.py."""
    run = sweep.measure(PLAN, ranks, "default", 120.0, say=lambda _: None)
    assert run.passed, run.ends
    assert [end.stage for end in run.ends] == ["ended"] * ranks
    assert [(one.operation, one.nbytes) for one in run.samples] == [
        (operation, size) for operation in PLAN.operations for size in PLAN.sizes
    ]
    assert all(0 < one.p10_us <= one.median_us <= one.p90_us for one in run.samples)
    assert {one.operation for one in run.fits} == {"all_reduce", "all_to_all"}
    for one in run.fits:
        assert one.points == len(PLAN.sizes)
        assert one.alpha_us > 0 or one.beta_us_per_kib > 0


def test_a_rank_that_never_answers_ends_the_run_with_a_report() -> None:
    run = sweep.measure(
        PLAN, 2, "default", 12.0, worker=(sys.executable, "-P", STUB, "silent rank 1"), say=lambda _: None
    )
    assert run.hung
    assert not run.passed
    assert 9 < run.seconds < 30
    assert [end.outcome for end in run.ends] == ["hung", "hung"]
    # The rank that works waits for the other, unless this machine needs ten seconds to import torch.
    assert run.ends[0].stage in ("joining 2 ranks over gloo", "importing torch")


def test_command_writes_a_result(tmp_path: Path) -> None:
    sizes = [word for size in (64, 4096, 16_384) for word in ("--size", str(size))]
    ran = CliRunner().invoke(app, ["comm", "--backend", "gloo", *sizes, "--results", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert "passed: torch over gloo, 2 ranks" in ran.output
    (written,) = (tmp_path / "comm").iterdir()
    report = CommReport.model_validate(provenance.read(written).data)
    assert len(report.runs[0].samples) == 6
    assert json.loads(report.model_dump_json())["runs"][0]["plan"]["graphs"] is False


GLOO, NCCL = ("--backend", "gloo"), ("--backend", "nccl")


@pytest.mark.parametrize(
    ("gpus", "arguments", "message"),
    [
        (0, ("--backend", "mpi"), "--backend mpi: none of auto, nccl, gloo"),
        (0, (*GLOO, "--variant", "magic"), "--variant magic: none of default"),
        (0, (*GLOO, "--path", "magic"), "--path magic: none of torch"),
        (0, (*NCCL, "--ranks", "2"), "--backend nccl: this host has no NVIDIA GPU (nvidia-smi lists none)"),
        (1, NCCL, "--backend nccl: this host has one GPU, and a collective takes two; pass --backend gloo"),
        (2, (*NCCL, "--ranks", "3"), "--ranks 3: NCCL takes a GPU for each, this host has 2; pass 2 to 2"),
        (0, (*GLOO, "--variant", "p2p-off"), "--variant p2p-off: a setting of NCCL, which gloo does not read"),
        (0, ("--path", "sglang-custom"), "--path sglang-custom: SGLang's all-reduce runs on two or more GPUs"),
        (2, (*GLOO, "--path", "sglang-nccl"), "--path sglang-nccl: SGLang's all-reduce runs on two or more GPUs"),
        (2, ("--path", "sglang-nccl"), "--path sglang-nccl: SGLang is not installed"),
        (0, ("--ranks", "64"), "--ranks 64: gloo ranks share this host's 2 cores; pass 2 to 8"),
        (0, ("--results", "/dev/null"), "--results /dev/null: cannot be written"),
    ],
    ids=str,
)
def test_wrong_arguments_are_told(
    gpus: int, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k25serve.bench.comm.host.gpu_count", lambda: gpus)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(sweep, "sweep", lambda *_, **__: pytest.fail("the work began"))
    ran = CliRunner().invoke(app, ["comm", *arguments])
    assert isinstance(ran.exception, UserError), ran.output
    assert message in str(ran.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--size", "0"),
        ("--size", "-8"),
        ("--size", str(1 << 40)),
        ("--limit", "inf"),
        ("--limit", "nan"),
        ("--limit", "0"),
        ("--ranks", "1"),
        ("--ranks", "1000"),
        ("preflight", "--limit", "inf"),
        ("preflight", "--ranks", "1000"),
    ],
    ids=" ".join,
)
def test_numbers_out_of_range_are_refused(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["comm", *arguments]).exit_code == 2


@pytest.mark.parametrize(("gpus", "backend"), [(0, "gloo"), (1, "gloo"), (2, "nccl")])
def test_auto_takes_nccl_where_two_gpus_are(gpus: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one call without options measures: both operations, in graphs too where there are any."""
    asked: list[tuple[Plan, int]] = []

    def sweep_(plans: list[Plan], ranks: int, *_: object, **__: object) -> tuple[()]:
        asked.extend((plan, ranks) for plan in plans)
        return ()

    monkeypatch.setattr("k25serve.bench.comm.host.gpu_count", lambda: gpus)
    monkeypatch.setattr(sweep, "sweep", sweep_)
    ran = CliRunner().invoke(app, ["comm"])
    assert ran.exit_code == 0, ran.output
    ((plan, ranks),) = asked
    assert (plan.backend, plan.graphs, ranks) == (backend, backend == "nccl", 2)
    assert plan.operations == ("all_reduce", "all_to_all")
    assert plan.path == "torch"
