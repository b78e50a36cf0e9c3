"""A collective that never returns is a finding in a time box: children gone, exit code not 0, nothing switched."""

import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.stack import wait_gone
from typer.testing import CliRunner

from k25serve.bench import provenance
from k25serve.bench.cli import app
from k25serve.bench.comm import host, sweep
from k25serve.bench.comm.report import CommReport, Plan, Run
from k25serve.bench.comm.table import advice

STUB = str(Path(__file__).with_name("stub_worker.py"))


def stub(behaviour: str) -> tuple[str, ...]:
    return (sys.executable, "-P", STUB, behaviour)


def preflight(behaviour: str, limit_s: float) -> tuple[Run, ...]:
    return sweep.preflight(2, "nccl", limit_s, worker=stub(behaviour), say=lambda _: None)


def stubs_left() -> list[str]:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if STUB in line]


def test_a_hang_ends_in_the_time_box_and_every_variant_is_tried() -> None:
    began = time.monotonic()
    runs = preflight("hangs", limit_s=3.0)
    assert time.monotonic() - began < 4 * 3.0 + 8
    assert [run.variant for run in runs] == ["default", "p2p-off", "cumem", "p2p-sys"]
    assert all(run.hung and not run.passed for run in runs)
    for end in runs[0].ends:
        assert (end.outcome, end.stage, end.unkillable) == (
            "hung",
            f"all_reduce of {sweep.PREFLIGHT_SIZES[0]} B",
            False,
        )
    assert runs[0].ends[0].log == ("last words",)
    assert runs[0].nccl == "2.27.5"
    assert stubs_left() == []
    assert "collectives do not work here" in advice(runs)


def test_the_variant_that_works_is_told_with_its_bandwidth_and_not_applied() -> None:
    before = dict(os.environ)
    runs = preflight("hangs unless p2p is off", limit_s=5.0)
    assert [(run.variant, run.passed) for run in runs] == [
        ("default", False),
        ("p2p-off", True),
        ("cumem", False),
        ("p2p-sys", False),
    ]
    line = advice(runs)
    assert "Nothing was changed" in line
    assert "export NCCL_P2P_DISABLE=1 (12.6 GB/s at 16777216 B)" in line
    assert dict(os.environ) == before
    assert stubs_left() == []


def test_a_pass_needs_no_variant() -> None:
    runs = preflight("works", limit_s=30.0)
    assert [(run.variant, run.passed) for run in runs] == [("default", True)]
    assert advice(runs) == ""
    assert runs[0].samples[0].nbytes == sweep.PREFLIGHT_SIZES[0]
    assert runs[0].fits[0].alpha_us == pytest.approx(20.0)


def test_a_rank_that_fails_ends_the_others_at_once() -> None:
    began = time.monotonic()
    run = sweep.measure(
        Plan(backend="nccl", sizes=(8,)), 2, "default", 60.0, worker=stub("crashes"), say=lambda _: None
    )
    assert time.monotonic() - began < 20
    assert not run.passed
    assert not run.hung
    assert [(end.outcome, end.exit_code) for end in run.ends] == [("ended with the others", -9), ("failed", 3)]
    assert run.ends[1].log == ("NCCL WARN something broke",)


@pytest.mark.parametrize(
    ("behaviour", "limit", "code", "words"),
    [("works", "30", 0, "passed:"), ("hangs", "2", 1, "HUNG, ended after 2 s")],
)
def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, limit: str, code: int, words: str
) -> None:
    monkeypatch.setattr(sweep, "preflight", functools.partial(sweep.preflight, worker=stub(behaviour)))
    monkeypatch.setattr(host, "gpu_count", lambda: 2)
    monkeypatch.setattr(sweep, "FALLBACKS", ("p2p-off",))
    ran = CliRunner().invoke(app, ["comm", "preflight", "--limit", limit, "--results", str(tmp_path)])
    assert ran.exit_code == code, ran.output
    assert words in " ".join(ran.output.split())
    (written,) = (tmp_path / "comm").iterdir()
    report = CommReport.model_validate(provenance.read(written).data)
    assert report.runs[0].passed is (code == 0)
    assert report.host.findings


def test_a_launcher_that_is_killed_takes_its_ranks_along(tmp_path: Path) -> None:
    code = (
        "from k25serve.bench.comm import sweep; from k25serve.bench.comm.report import Plan;"
        "sweep.measure(Plan(backend='gloo', sizes=(8,), samples=10**9), 2, 'default', 300.0)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # what it leaves behind goes with the test
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        deadline = time.monotonic() + 60
        while len(ranks := children.read_text().split()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(ranks) == 2
        # The rank asks for the signal as its first act, within its interpreter's start.
        time.sleep(3)
        launcher.kill()
    wait_gone([int(pid) for pid in ranks], 20)


@pytest.mark.parametrize(
    ("command_line", "groups", "kind", "words"),
    [
        ("quiet amd_iommu=on iommu=pt", 60, "DMA", "passthrough"),
        ("quiet", 60, "identity", "passthrough"),
        ("quiet", 60, "DMA-FQ", "without iommu=pt"),
        ("quiet iommu=ptx", 60, "DMA-FQ", "without iommu=pt"),
        ("quiet", 0, "", "off, or hidden"),
    ],
)
def test_iommu_findings(command_line: str, groups: int, kind: str, words: str) -> None:
    (line,) = host.findings(command_line, groups, kind)
    assert words in line


def test_host_is_read_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("BOOT_IMAGE=/vmlinuz iommu=pt\n")
    for group in "01":
        folder = tmp_path / "sys/kernel/iommu_groups" / group
        folder.mkdir(parents=True)
        (folder / "type").write_text("identity\n")
    found = host.read_host(tmp_path, {"NCCL_P2P_LEVEL": "SYS", "HOME": "/root"})
    assert found.kernel_command_line == "BOOT_IMAGE=/vmlinuz iommu=pt"
    assert (found.iommu_groups, found.iommu_type) == (2, "identity")
    assert found.nccl_environment == {"NCCL_P2P_LEVEL": "SYS"}
    assert "passthrough" in found.findings[0]
