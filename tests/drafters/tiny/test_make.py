"""The script end to end, with a step or two of everything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from k25serve.drafters.tiny import MODELS
from k25serve.drafters.tiny.make import parse

SMALL = (
    *("--steps", "2", "--vision-steps", "1", "--tokens-per-step", "1024"),
    *("--files", "120", "--chats", "60"),
)


def test_smoke_run_writes_what_is_packaged(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "k25serve.drafters.tiny.make", "--out", str(tmp_path), "--device", "cpu", *SMALL]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "[target] 2/2 loss" in done.stdout
    assert "0 s left" in done.stdout

    def names(root: Path) -> list[str]:
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.suffix != ".pyc")

    assert names(tmp_path) == [name for name in names(MODELS) if not name.startswith("drafter/")]
    record = json.loads((tmp_path / "target" / "provenance.json").read_text())
    assert record["options"]["steps"] == 2
    assert record["target"]["training"]["loss"] > 4  # untrained


def test_help_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parse(["--help"])
    text = capsys.readouterr().out
    assert "--out DIR" in text
    assert "standard library" in text
    assert "default: 0" in text
