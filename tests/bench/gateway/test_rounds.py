import io
import os
import sys
import time

import pytest
from rich.console import Console

from k25serve.bench.gateway.arms import ARMS, Arm, NotInstalledError, environment
from k25serve.bench.gateway.bars import ALLOWED
from k25serve.bench.gateway.process import (
    FailedError,
    cpu_seconds,
    machine_cpu_seconds,
    rss_mb,
    running,
    wait_for_port,
)
from k25serve.bench.gateway.report import show
from k25serve.bench.gateway.rounds import Bench

TINY = {"streams": 4, "chunks": 5, "pace": 0.01, "series": 5, "per_worker": 1, "closed_s": 0.1}


def test_one_round_of_the_yardstick_and_ours(tmp_path):
    said = []
    bench = Bench(tmp_path, 31560, said.append)
    arms = [arm._replace(many=100) for arm in ARMS if arm.name in ("raw", "k25serve")]
    rounds = bench.run(arms, 1, TINY, many=True)
    assert bench.missing == {}
    assert list(rounds) == ["direct", "raw", "k25serve"]
    for name in ("raw", "k25serve"):
        [visit] = rounds[name]
        assert visit["errors"] == 0
        assert 0 <= visit["others_cpus"] <= os.cpu_count()
        assert visit["chunk_us"] > 0
        assert visit["whole_us"] > 0
        assert 20 < visit["rss_many_mb"] < 300
        assert visit["many_requests"] == 100
        assert visit["behaviour"]["on_503"] == {**visit["behaviour"]["on_503"], "status": 503, "attempts": 1}
        assert all(time is not None for times in visit["behaviour"]["cancel_ms"].values() for time in times)
    assert rounds["raw"][0]["behaviour"]["fields"] == []
    assert rounds["k25serve"][0]["behaviour"]["fields"] == sorted(ALLOWED)
    out = io.StringIO()
    show(Console(file=out, width=160), rounds, {"other": "could not be installed"})
    for text in ("CPU us per streamed chunk / raw", "attempts on a 503", "holds", "other: not measured"):
        assert text in out.getvalue()


def test_an_arm_that_cannot_be_had_is_reported(tmp_path):
    def never(programs, port, engine, files):
        return [sys.executable, "-c", "import sys; sys.exit('no worker')"]

    bench = Bench(tmp_path, 31564, lambda _: None)
    rounds = bench.run([Arm("broken", never)], 1, TINY, many=False)
    assert list(rounds) == ["direct"]
    assert "no worker" in bench.missing["broken"]


def test_uv_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalledError, match="uv is not installed"):
        environment(next(arm for arm in ARMS if arm.requirements), tmp_path)


def test_what_the_machine_does_is_counted():
    before, own = machine_cpu_seconds(), time.process_time()
    while time.process_time() - own < 0.3:
        pass
    assert machine_cpu_seconds() - before > 0.25


def test_a_process_and_what_it_uses(tmp_path):
    # Both end by themselves should this test be killed: a busy process that is left over spoils every later benchmark.
    busy = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {busy!r}]); time.sleep(30)"
    own = os.sched_getaffinity(0)
    with running([sys.executable, "-c", code], {min(own)}, tmp_path / "log", os.environ) as pid:
        assert os.sched_getaffinity(pid) == {min(own)}
        before = cpu_seconds(pid)
        with pytest.raises(FailedError, match="nothing listens"):
            wait_for_port(31568, pid, 1.0, tmp_path / "log")
        assert cpu_seconds(pid) - before > 0.1
        assert rss_mb(pid) > 5
    assert os.sched_getaffinity(0) == own
    assert not os.path.exists(f"/proc/{pid}")
