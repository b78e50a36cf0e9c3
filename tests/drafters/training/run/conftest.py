"""A run of fourteen conversations."""

import json
from pathlib import Path

import pytest
from drafter_files.runs import SMALL, Runs


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {number} plus {number}?"},
                {"role": "assistant", "content": f"{number} plus {number} is {2 * number}."},
            ]
        }
        for number in range(14)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def runs(tmp_path: Path, samples: Path) -> Runs:
    return Runs(tmp_path / "run", [*SMALL, f"data.inputs=[{samples}]"])
