"""Reports of processes and the gate over them, without SGLang."""

import json
import os
import sys
from types import ModuleType

import pytest
from patch_rows.made import MODULE, SOURCE, row
from patch_rows.wheels import make_wheel

from k25serve.patches import apply, fault, verify
from k25serve.patches.context import Here
from k25serve.patches.manifest.switches import SWITCHES_ENV, Chosen
from k25serve.patches.manifest.trees import Wheel
from k25serve.patches.reports import REPORTS_ENV, Reports


class Steps:
    """The row's class."""

    def __init__(self, context):
        self.limit = context.options["limit"]

    def step(self, original, worker, batch):
        return min(original(worker, batch), self.limit)

    def facts(self):
        return {"limit": self.limit}


@pytest.fixture
def reports(tmp_path, monkeypatch):
    folder = tmp_path / "reports"
    folder.mkdir()
    monkeypatch.setenv(REPORTS_ENV, str(folder))
    return Reports(folder)


@pytest.fixture
def worker(monkeypatch):
    made, code = ModuleType("sglang.srt.worker"), ModuleType("k25serve.patches.hooks.steps")
    exec(SOURCE, vars(made))
    code.Steps = Steps
    for name in ("sglang", "sglang.srt"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "sglang.srt.worker", made)
    monkeypatch.setitem(sys.modules, code.__name__, code)
    return made.Worker


def chosen(**changes):
    return (Chosen(row(**changes), {"limit": 3, "share": 0.5}),)


def here(process="scheduler"):
    return apply.apply(chosen(), "0.5.23", "cpu", process)


def test_hooks_of_this_process_only(worker):
    assert here("main").objects == {}
    assert worker().step(9) == 10
    assert set(here().objects) == {"steps"}
    assert worker().step(9) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": "k25serve.patches.hooks.steps:Gone"}, "AttributeError"),
        ({"code": "k25serve.patches.hooks.gone:Steps"}, "ModuleNotFoundError"),
    ],
)
def test_what_cant_be_put_in_place_stops_with_the_row_version_and_remedy(worker, reports, change, message):
    with pytest.raises(fault.PatchFault) as stopped:
        apply.apply(chosen(**change), "0.5.23", "cpu", "scheduler")
    line = str(stopped.value)
    assert line.startswith(f"k25serve: error: patch steps: it can't be put in place: {message}")
    assert "SGLang 0.5.23 found, written for 0.5.23" in line
    assert "--set patches.steps=false" in line
    assert reports.faults() == [line]


def test_the_report_of_a_process(worker, reports):
    report = verify.report_ready(here(), reports, {"tp": 1, "pp": 0})
    assert reports.read("ready") == [report]
    assert report["rank"] == {"tp": 1, "pp": 0}
    assert report["rows"] == {"steps": {"hooks": ["sglang.srt.worker.Worker.step"], "facts": {"limit": 3}}}


def test_a_hook_that_was_taken_out_stops_the_process(worker, reports):
    placed = here()
    worker.step = lambda self, batch: batch
    with pytest.raises(fault.PatchFault, match=r"patch steps: sglang\.srt\.worker\.Worker\.step is no longer ours"):
        verify.report_ready(placed, reports, {})


def report(reports, pid, process, rows):
    (reports.folder / f"ready-{pid}.json").write_text(
        json.dumps({"process": process, "pid": pid, "rank": {"tp": pid, "pp": 0}, "rows": {name: {} for name in rows}})
    )


def check(reports, schedulers):
    expected = {"main": {os.getpid()}, "scheduler": schedulers}
    verify.check_ready(chosen(), Here("0.5.23", "cpu", "main"), reports, expected)


def test_every_process_has_it(reports, capsys):
    report(reports, 11, "scheduler", ["steps"])
    report(reports, 12, "scheduler", ["steps", "other"])
    check(reports, {11, 12})
    line = capsys.readouterr().err
    found = json.loads(line.removeprefix("k25serve: patches in place: "))
    assert [one["pid"] for one in found["processes"]] == [11, 12]
    assert not reports.folder.exists()


@pytest.mark.parametrize("rows", [None, ["other"]])
def test_a_missing_process_stops_the_launch_with_the_rows_name(reports, rows):
    report(reports, 11, "scheduler", ["steps"])
    if rows is not None:
        report(reports, 12, "scheduler", rows)
    with pytest.raises(fault.PatchFault) as stopped:
        check(reports, {11, 12})
    line = str(stopped.value)
    assert line.startswith("k25serve: error: patch steps: not in place in 1 of 2 scheduler processes (pid 12)")
    assert "under SGLang 0.5.23; check SGLANG_PLUGINS" in line
    assert "\n" not in line


def test_a_gate_without_processes_is_no_gate(reports):
    with pytest.raises(fault.PatchFault, match=r"patch steps: SGLang 0\.5\.23 started no scheduler process to check"):
        check(reports, set())


def test_a_recorded_fault_comes_first(reports):
    reports.write_fault("k25serve: error: patch steps: broke")
    with pytest.raises(fault.PatchFault, match="patch steps: broke"):
        check(reports, {11})


def test_after_the_launch_a_fault_needs_no_folder(reports):
    reports.remove()
    assert str(fault.stop("patch steps: late")) == "k25serve: error: patch steps: late"


def test_the_plugin_must_have_run_in_the_main_process(reports):
    with pytest.raises(fault.PatchFault, match="patch self_check: the plugin 'k25serve' did not run"):
        verify.check_applied(reports)
    verify.report_applied(Here("0.5.23", "cpu", "main"), reports)
    verify.check_applied(reports)


def test_the_source_is_checked_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "ROWS", (row(),))
    monkeypatch.delenv(SWITCHES_ENV, raising=False)
    verify.check_source("cpu", Wheel.open(make_wheel(tmp_path, "0.5.23", {MODULE: SOURCE})))
    other = Wheel.open(make_wheel(tmp_path, "0.5.23", {MODULE: SOURCE.replace("+ 1", "+ 2")}))
    with pytest.raises(fault.PatchFault, match=r"patch steps: .* expected .* as in 0\.5\.23; install"):
        verify.check_source("cpu", other)
    monkeypatch.setenv(SWITCHES_ENV, '{"steps": false}')
    verify.check_source("cpu", other)
    monkeypatch.setenv(SWITCHES_ENV, '{"stepz": false}')
    with pytest.raises(fault.PatchFault, match=r"patches\.stepz: no such patch; there are steps"):
        verify.check_source("cpu", other)


def test_the_folder_of_a_launch_is_removed_and_so_is_one_that_was_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(REPORTS_ENV, raising=False)
    old, new = tmp_path / "k25serve-patches-old", tmp_path / "k25serve-patches-new"
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (0, 0))
    with Reports.opened() as reports:
        assert Reports.from_environment() == reports
        reports.write_fault("x")
        assert {path.name for path in tmp_path.iterdir()} == {new.name, reports.folder.name}
    assert list(tmp_path.iterdir()) == [new]
    monkeypatch.delenv(REPORTS_ENV)
