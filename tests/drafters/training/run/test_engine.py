"""What a run does with the launcher: the settings it adds, the wait, the end. The launcher itself is a stand-in."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.run import engine
from k25serve.drafters.training.run.engine import Engines
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.options import EngineOptions, GateOptions
from k25serve.drafters.training.run.processes import Process, tree

# `engine --dry-run` prints the plan; `engine` writes its arguments down, starts a child and says that it is ready.
LAUNCHER = """
import json, os, subprocess, sys, time
arguments = sys.argv[1:]
sets = dict(word.split("=", 1) for word in arguments if "=" in word)
if arguments[arguments.index("--profile") + 1] == "wrong":
    sys.exit("k25serve: error: profile wrong not found")
if "--dry-run" in arguments:
    own = "" if "engine.extra_args" in sets else " --sleep-on-idle"
    print(f"A='1 2' \\\\\\npython -m launch --device {os.environ['DEVICE']}{own}")
    sys.exit()
if arguments[arguments.index("--profile") + 1] == "breaks":
    sys.exit("k25serve: error: the engine ended with exit code 1: out of memory")
with open(os.environ["TOLD"], "w") as file:
    json.dump({"sets": sets, "state": os.environ["XDG_STATE_HOME"]}, file)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("engine: ready after 3 s.", flush=True)
time.sleep(600)
"""
OPTIONS = EngineOptions(profile="some", layers=(1, 2, 3), extra_args=("--own",))


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engines:
    script = tmp_path / "launcher.py"
    script.write_text(LAUNCHER)
    monkeypatch.setattr(engine, "K25SERVE", (sys.executable, str(script)))
    monkeypatch.setenv("TOLD", str(tmp_path / "told.json"))
    monkeypatch.setenv("DEVICE", "cpu")
    (tmp_path / "run" / "tmp").mkdir(parents=True)
    return Engines(RunFolder(tmp_path / "run"), lambda line: None)


def told(tmp_path: Path) -> dict[str, str]:
    sets: dict[str, str] = json.loads((tmp_path / "told.json").read_text())["sets"]
    return sets


def test_captures_whole_prompts_without_speculation(engines: Engines, tmp_path: Path) -> None:
    with engines.capturing(OPTIONS, Path("/models/a target")) as (url, staging):
        sets = told(tmp_path)
        assert url == f"http://127.0.0.1:{sets['engine.port']}"
        assert staging.is_dir()
        assert json.loads((tmp_path / "run/tmp/engine.json").read_text())[0]["pid"]
    assert json.loads(sets["engine.extra_args"]) == [
        "--sleep-on-idle",
        "--own",
        "--disable-radix-cache",
        "--chunked-prefill-size",
        "-1",
    ]
    assert sets["target"] == '"/models/a target"'
    assert sets["speculation"] == "{algorithm: none}"
    assert sets["patches.capture_states.layers"] == '"1,2,3"'
    assert json.loads(sets["patches.capture_states.directory"]) == str(staging)
    assert not staging.exists()


def test_no_graphs_of_prompts_on_a_gpu(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "cuda")
    with engines.capturing(OPTIONS.model_copy(update={"staging": tmp_path / "shm"}), Path("/t")) as (_, staging):
        assert staging.parent == tmp_path / "shm"
    assert "--disable-prefill-cuda-graph" in json.loads(told(tmp_path)["engine.extra_args"])


def test_serves_the_drafter(engines: Engines, tmp_path: Path) -> None:
    with engines.serving("gate", GateOptions(profile="some"), Path("/t"), Path("/d")):
        assert told(tmp_path)["speculation.drafter"] == '"/d"'


def test_nothing_of_it_is_left_after_an_error(engines: Engines, tmp_path: Path) -> None:
    everything: list[Process] = []

    def fails() -> None:
        with engines.capturing(OPTIONS, Path("/t")):
            noted = json.loads((tmp_path / "run/tmp/engine.json").read_text())
            everything.extend(tree(noted[0]["pid"]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert len(everything) == 2
    assert not any(process.alive for process in everything)
    assert not (tmp_path / "run/tmp/engine.json").exists()


@pytest.mark.parametrize(
    ("profile", "why"), [("wrong", "profile wrong not found"), ("breaks", "out of memory; its log")]
)
def test_why_it_does_not_start(engines: Engines, profile: str, why: str) -> None:
    options = OPTIONS.model_copy(update={"profile": profile})
    with (
        pytest.raises(TrainingError, match=f"engine.profile {profile}: .*{why}") as caught,
        engines.capturing(options, Path("/t")),
    ):
        pass
    assert len(str(caught.value).splitlines()) == 1


def test_what_a_killed_run_left_is_ended_and_nothing_else(engines: Engines, tmp_path: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleeper) as left, subprocess.Popen(sleeper) as other:
        mine, theirs = Process.of(left.pid), Process.of(other.pid)
        assert mine is not None
        assert theirs is not None
        noted = [asdict(mine), asdict(theirs) | {"started": theirs.started - 1}]
        (tmp_path / "run/tmp/engine.json").write_text(json.dumps(noted))
        engines.end_left_over()
        assert (mine.alive, theirs.alive) == (False, True)
        other.kill()
    assert not (tmp_path / "run/tmp/engine.json").exists()
