"""Runs interpreted.py where Triton was imported as an interpreter: the choice holds for a whole process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("tier", ["not full", pytest.param("full", marks=pytest.mark.full)])
def test_kernels_in_the_interpreter(tier: str) -> None:
    file = Path(__file__).with_name("interpreted.py")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-m", tier, file]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    answer = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=500, check=False
    )
    assert answer.returncode == 0, answer.stdout[-8000:] + answer.stderr[-2000:]
    assert " passed" in answer.stdout
