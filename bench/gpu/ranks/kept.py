"""Data of steps in the stage's folder, so that a run may go on where one ended."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Data = dict[str, Any]
FOLDER = "steps"


def write(folder: Path, name: str, data: Data) -> None:
    """Keep a step's data, whole or not at all: what a killed run measured before must stay."""
    path = _path(folder, name)
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(data, indent=1), encoding="utf-8")
    unfinished.replace(path)


def read(folder: Path, names: Iterable[str]) -> dict[str, Data]:
    """Data of those steps that left some, by name, in order."""
    files = {name: _path(folder, name) for name in names}
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}


def _path(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.json"
