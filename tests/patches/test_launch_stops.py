"""The real launcher on a row that does not fit: it stops before SGLang is imported, with one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line.call import call

TESTS = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("k25serve")


def launch(spoil):
    return subprocess.run(
        [sys.executable, "-P", "-m", "patch_rows.spoilt_launch", "--device", "cpu", "--model-path", "gone"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS), "SPOIL": spoil},
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("wrong target", "TpModelWorker.forward_bunch_generation is not in SGLang 0.5.23"),
        ("changed fingerprint", "has fingerprint 2e3aa8ee5c6e3c54 in SGLang 0.5.23, expected 0000000000000000"),
    ],
)
def test_one_line_with_row_version_and_remedy(spoil, said):
    done = launch(spoil)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("k25serve: error: patch step_seconds: sglang.srt.managers.tp_worker.")
    assert said in line
    assert line.endswith("install sglang==0.5.23 as published, or start without it: --set patches.step_seconds=false")
    assert len(done.stderr.splitlines()) == 2, "the notice of the CPU, then the fault"


def test_the_supervisor_shows_the_line(tmp_path):
    done = subprocess.run(
        [COMMAND, "engine", "-p", "cpu-tiny", "--set", 'engine.env={K25SERVE_PATCHES: "{\\"stepz\\": true}"}'],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "300"},
    )
    assert done.returncode == 1, done.stderr
    assert "the engine ended with exit code 1: patches.stepz: no such patch; there are" in done.stderr


def test_a_profile_knows_the_patches():
    done = call("serve", "-p", "cpu-tiny", "--dry-run", "--set", "patches.stepz=true")
    assert done.returncode == 2
    assert "patches.stepz: no such patch; there are mla_verify, step_seconds" in " ".join(done.stderr.split())
    done = call("serve", "-p", "cpu-tiny", "--dry-run", "--set", "patches.step_seconds=false")
    assert done.returncode == 0
    assert """K25SERVE_PATCHES='{"step_seconds": false}'""" in done.stdout
