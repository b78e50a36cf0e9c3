"""Checkpoints: everything that the next step depends on, in one file, complete or not there. The last two are kept."""

import os
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from k25serve.drafters.checkpoint.errors import TrainingError

KEPT = 2


def save(folder: Path, step: int, state: dict[str, Any], kept: int = KEPT) -> None:
    """folder/step-<step>.pt. Older ones than the last `kept` go once the new one is on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:08d}.pt"
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    for old in _checkpoints(folder)[:-kept]:
        old.unlink()


def load(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint, on the CPU; None where there is none.

    Raises TrainingError where there are some and none can be read.
    """
    found = _checkpoints(folder)
    for path in reversed(found):
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, UnpicklingError, OSError):
            continue  # damaged on the disk: the one before it is as good, some steps back
        return state
    if found:
        raise TrainingError(f"{folder}: none of {len(found)} checkpoints can be read; remove the folder to begin again")
    return None


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.pt"))
