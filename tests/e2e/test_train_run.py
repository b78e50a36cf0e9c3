"""`k25serve drafter train run` with the real engine: once through, Ctrl-C, SIGKILL at twenty moments.

K25SERVE_RESULTS=FOLDER keeps the series as a result file of kind train-kill.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from e2e.stack import COMMAND, wait_gone
from e2e.train_kill import PHASES, draw_moments, finish, kill_at, outcome, start, timed

from k25serve.bench.provenance import Recorder, write
from k25serve.drafters.check import Verdict, check_drafter
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.run.processes import tree

pytestmark = [pytest.mark.engine, pytest.mark.full, pytest.mark.timeout(5400)]
RESULTS = "K25SERVE_RESULTS"
SEED = 20
# Long enough to be killed five times while it captures, seven times while it is fitted.
LONGER = ("data.packaged=96", "fit.max_steps=600", "fit.evaluate_every=40", "fit.checkpoint_every_steps=5")
GATE = ("gate.profile=cpu-tiny", "gate.prompts=2", "gate.max_tokens=16")


def test_micro_with_the_real_engine(tmp_path: Path) -> None:
    """Through to the gate, its states a plain forward's, its drafter checked; then nothing is left to do."""
    out, sets = tmp_path / "run", ("gate={profile: cpu-tiny}", *GATE[1:])
    said = finish(out, tmp_path / "log", sets)
    assert "4 layers against a plain forward" in said
    assert "gate pass: accept length" in said or "gate warn: accept length" in said
    gate = json.loads((out / "gate.json").read_text())
    assert gate["trained"]["all"]["steps"] > 0
    assert check_drafter(out / "drafter", TARGET).verdict is not Verdict.REFUSE
    steps = json.loads((out / "state.json").read_text())["steps"]
    assert {name: step["status"] for name, step in steps.items()} == dict.fromkeys(
        ("data", "vocab", "capture", "fit", "export", "gate"), "finished"
    )
    again = finish(out, tmp_path / "again", sets)
    assert "nothing was left to do" in again
    assert "starts on port" not in again


def test_ctrl_c_stops_the_engine(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(tmp_path / "run", log, ())
    deadline = time.monotonic() + 600
    while "engine: ready" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    everything = [one.pid for one in tree(process.pid)]
    assert len(everything) >= 4
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 130, log.read_text()
    wait_gone(everything, 10)
    assert "the same command goes on" in log.read_text()
    assert not (tmp_path / "run" / "tmp" / "engine.json").exists()


def test_a_profile_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    command = [COMMAND, "drafter", "train", "run", "--config", "packaged:micro", "--out", tmp_path / "run"]
    told = subprocess.run([*command, "--set", "engine.profile=cpu-tyni"], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    (line,) = told.stderr.strip().splitlines()
    assert "engine.profile cpu-tyni: profile cpu-tyni not found" in line
    assert not (tmp_path / "run" / "data").exists()


def test_killed_twenty_times_ends_bit_equal(tmp_path: Path) -> None:
    command = ["pytest", "tests/e2e/test_train_run.py", "-k", "test_killed_twenty_times_ends_bit_equal"]
    recorder = Recorder("train-kill", command)
    begun = time.monotonic()
    lengths = timed(tmp_path / "whole", tmp_path / "whole.log", LONGER)
    whole_s = round(time.monotonic() - begun, 1)
    moments = draw_moments(SEED, lengths)
    assert len(moments) == 20
    killed = kill_at(moments, tmp_path / "killed", tmp_path / "killed.log", LONGER)
    finish(tmp_path / "killed", tmp_path / "killed.log", LONGER)
    expected, found = outcome(tmp_path / "whole"), outcome(tmp_path / "killed")
    different = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    if RESULTS in os.environ:
        data = {
            "seed": SEED,
            "phases": [list(phase) for phase in PHASES],
            "phase_seconds": lengths,
            **killed.as_json(),
            "whole_seconds": whole_s,
            "compared_files": len(expected),
            "different_files": different,
            "drafter_sha256": expected["drafter/model.safetensors"],
        }
        write(recorder.finish(data, notes="config packaged:micro with " + ", ".join(LONGER)), Path(os.environ[RESULTS]))
    assert different == []
    assert len(killed.kills) == 20, [kill.phase for kill in killed.kills]
    assert max(kill.gone_s for kill in killed.kills) < 120
