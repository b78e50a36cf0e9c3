import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from k25serve.patches import fault, verify
from k25serve.patches.apply import current_process
from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import self_check
from k25serve.patches.hooks.rank import Rank
from k25serve.patches.hooks.self_check import SelfCheck
from k25serve.patches.reports import REPORTS_ENV, Reports


def test_this_is_the_main_process():
    assert current_process() == "main"


def test_a_spawned_child_knows_what_it_is(tmp_path):
    code = (
        "import multiprocessing\nfrom k25serve.patches.apply import current_process\n"
        "def run_scheduler_process(): print(current_process(), flush=True)\n"
        "def run_detokenizer_process(): print(current_process(), flush=True)\n"
        "if __name__ == '__main__':\n"
        "    spawn = multiprocessing.get_context('spawn')\n"
        "    for target in (run_scheduler_process, run_detokenizer_process):\n"
        "        child = spawn.Process(target=target); child.start(); child.join()\n"
    )
    (tmp_path / "main.py").write_text(code)
    done = subprocess.run([sys.executable, "-P", tmp_path / "main.py"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["scheduler", "None"]


@pytest.mark.parametrize(
    ("direct", "listed", "children", "expected"),
    [
        ([12], [12, 11], [11, 12], {12}),
        ([12, 13], [12, 13, 11, 10], [10, 11, 12, 13], {12, 13}),
        ([20], [20, 31, 32, 11], [20, 11], {31, 32}),
        ([20, 12, 13], [20, 12, 13, 12, 13, 11], [20, 12, 13, 11], {12, 13}),
    ],
    ids=["one", "two ranks, two detokenizers", "data parallel", "data parallel, started here"],
)
def test_which_processes_are_schedulers(direct, listed, children, expected):
    assert self_check.schedulers(direct, listed, children) == expected


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """A launch with a detokenizer, 11, and two schedulers."""
    monkeypatch.setenv(REPORTS_ENV, str(tmp_path))
    monkeypatch.setattr(self_check, "this_rank", lambda: Rank(3, 0))
    children = [SimpleNamespace(pid=pid) for pid in (11, 12, 13)]
    monkeypatch.setattr(multiprocessing, "active_children", lambda: children)
    here = Here("0.5.23", "cpu", "main")
    here.objects["self_check"] = made = SelfCheck(Context(here, {}))
    made.started(("result", children[1:]), object, "server_args")
    result = ("tokenizer", None, SimpleNamespace(all_child_pids=[12, 13, 11]))
    return SimpleNamespace(check=made, started=result, reports=Reports(tmp_path))


def test_a_scheduler_reports_its_rank(engine):
    engine.check.report({"status": "ready"}, "scheduler")
    (report,) = engine.reports.read("ready")
    assert (report["pid"], report["rank"]) == (os.getpid(), {"tp": 3, "pp": 0})


@pytest.mark.parametrize("by_name", [True, False])
def test_the_gate_waits_for_every_scheduler(engine, monkeypatch, by_name):
    seen = []
    monkeypatch.setattr(verify, "check_ready", lambda *args: seen.append(args[-1]))
    arguments = ((), {"server_args": "args"}) if by_name else (("args",), {})
    assert engine.check.gate(engine.started, object, *arguments[0], **arguments[1]) is None
    assert seen == [{"main": {os.getpid()}, "scheduler": {12, 13}}]


def test_the_gate_stops_where_one_is_missing(engine):
    with pytest.raises(fault.PatchFault, match=r"not in place in 2 of 2 scheduler processes \(pid 12, 13\)"):
        engine.check.gate(engine.started, object, server_args="args")
