"""Real collectives between two processes on the CPU."""

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


def test_two_ranks_measure_both_operations() -> None:
    run = sweep.measure(PLAN, 2, "default", 120.0, say=lambda _: None)
    assert run.passed, run.ends
    assert [end.stage for end in run.ends] == ["ended", "ended"]
    assert [(one.operation, one.nbytes) for one in run.samples] == [
        (operation, size) for operation in PLAN.operations for size in PLAN.sizes
    ]
    assert all(0 < one.p10_us <= one.median_us <= one.p90_us for one in run.samples)
    assert {one.operation for one in run.fits} == {"all_reduce", "all_to_all"}


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "mpi"], "--backend mpi: none of nccl, gloo"),
        (["--backend", "gloo", "--variant", "magic"], "--variant magic: none of default"),
        (["--backend", "gloo", "--path", "magic"], "--path magic: none of torch"),
        (["--backend", "nccl", "--ranks", "2"], "--ranks 2: NCCL needs 2 to 0"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k25serve.bench.comm.host.gpu_count", lambda: 0)
    ran = CliRunner().invoke(app, ["comm", *arguments])
    assert isinstance(ran.exception, UserError)
    assert message in str(ran.exception)
