"""The gate with the Triton of every other supported torch, each in an environment that holds nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# 3.6.0 comes with torch 2.11 (SGLang 0.5.17), 3.7.1 with torch 2.13.
VERSIONS = ("3.6.0", "3.7.1")


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
def test_default_tiles_fit(version: str, tmp_path: Path) -> None:
    environment, report = tmp_path / "venv", tmp_path / "report.json"
    python, uv = environment / "bin" / "python", Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, environment], check=True)
    subprocess.run([uv, "pip", "install", "-q", "--python", python, f"triton=={version}", "rich"], check=True)
    namespace = tmp_path / "namespace"
    namespace.mkdir()
    (namespace / "k25serve").symlink_to(ROOT)
    command = [python, "-P", "-m", "k25serve.patches.compile", "--arch", "sm_120", "--ours-only", "--json", report]
    answer = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(namespace)}, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(report.read_text())
    assert found["triton"] == version
    assert found["passed"]
    assert all(row["known"] for row in found["rows"] if not row["default"])
    assert found["seconds"] < 180
