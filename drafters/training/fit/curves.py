"""curves.jsonl: a line an evaluation."""

import json
from pathlib import Path
from typing import Any

from k25serve.drafters.training.capture.files import write_whole

FILE = "curves.jsonl"


def read_curves(path: Path) -> list[dict[str, Any]]:
    """Every whole line; empty where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_curves(path: Path, lines: list[dict[str, Any]]) -> None:
    """All lines anew, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
