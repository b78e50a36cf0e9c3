"""A row that fails while the real engine starts: the launch stops with the row's name, and nothing is left running."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.stack import free_ports

from k25serve.server.config import load_profile
from k25serve.server.engine.argv import engine_argv, engine_env

pytestmark = [pytest.mark.engine, pytest.mark.full]
TESTS = Path(__file__).parents[1]


def launch(spoil: str) -> "subprocess.CompletedProcess[str]":
    (port,) = free_ports(1)
    profile = load_profile("cpu-tiny", [f"engine.port={port}"])
    return subprocess.run(
        [sys.executable, "-P", "-m", "patch_rows.spoilt_launch", *engine_argv(profile)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env={**os.environ, **engine_env(profile), "PYTHONPATH": str(TESTS), "SPOIL": spoil},
    )


def fault(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("k25serve: error: ")]
    assert lines, done.stderr[-3000:]
    assert "Uvicorn running" not in done.stderr
    return lines[-1]


def test_an_exception_inside_a_hook() -> None:
    line = fault(launch("exception"))
    assert line.startswith("k25serve: error: patch step_seconds: its hook on sglang.srt.managers.scheduler.Scheduler.")
    assert line.endswith("""failed: KeyError: 'no such key in the scheduler'""")


def test_a_scheduler_without_the_rows() -> None:
    line = fault(launch("missing process"))
    assert line.startswith("k25serve: error: patch step_seconds: not in place in 1 of 1 scheduler processes (pid ")
    assert "check SGLANG_PLUGINS" in line
