"""A data folder as `drafter train data` leaves it."""

import hashlib
import random
import warnings
from collections.abc import Sequence
from pathlib import Path

LENGTHS = (5, 1, 17, 40, 9, 23, 64, 12)


def prompts(lengths: Sequence[int] = LENGTHS, seed: int = 0) -> list[list[int]]:
    """Random ids of the packaged target's ordinary tokens."""
    rng = random.Random(seed)
    return [[rng.randrange(2000) for _ in range(length)] for length in lengths]


def write(folder: Path, train: Sequence[Sequence[int]], held_out: Sequence[Sequence[int]] = ()) -> Path:
    """Both splits; the second half of each sample is the assistant's."""
    from datasets import Dataset

    for name, rows in (("train", train), ("held_out", held_out or prompts((6, 8), seed=9))):
        columns = {
            "input_ids": [list(row) for row in rows],
            "loss_mask": [[int(place >= len(row) // 2) for place in range(len(row))] for row in rows],
            "seq_len": [len(row) for row in rows],
            "label": ["code"] * len(rows),
            "id": [hashlib.sha256(str(list(row)).encode()).hexdigest()[:16] for row in rows],
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Dataset.from_dict(columns).save_to_disk(str(folder / name))
    return folder
