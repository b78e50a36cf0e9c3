"""A trimmed trace keeps whole steps and the metadata."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.traces import trim


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events, "deviceProperties": [1]}).encode()))
    return path


def test_the_last_whole_steps_stay(tmp_path: Path) -> None:
    steps = [{"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=1]", "ts": at} for at in range(0, 500, 100)]
    kernels = [{"ph": "X", "cat": "kernel", "name": "k", "ts": at + 10} for at in range(0, 500, 100)]
    python = [{"ph": "X", "cat": "python_function", "name": "f", "ts": at + 20} for at in range(0, 500, 100)]
    metadata = [{"ph": "M", "name": "process_name"}]
    source = written(tmp_path / "a.json.gz", [*metadata, *steps, *kernels, *python])
    target = tmp_path / "b.json.gz"
    assert trim(source, target, 2) == 5
    kept = json.loads(gzip.decompress(target.read_bytes()))
    assert kept["deviceProperties"] == [1]
    assert [(event["ph"], event.get("ts")) for event in kept["traceEvents"]] == [
        ("M", None),
        ("X", 200),
        ("X", 300),
        ("X", 210),
        ("X", 310),
    ]


def test_too_few_steps_are_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "a.json.gz", [{"ph": "M", "name": "process_name"}])
    with pytest.raises(ProofError, match="0 steps, more than 2 expected"):
        trim(source, tmp_path / "b.json.gz", 2)
