"""Rows of the data: what is sent, and what must come back."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import TrainingError

COLUMNS = ("input_ids", "loss_mask", "seq_len", "id")


@dataclass(frozen=True)
class Row:
    """Sample `index` of a split. input_ids, loss_mask: [n]."""

    split: str
    index: int
    id: str
    input_ids: list[int]
    loss_mask: list[int]

    @property
    def sha256(self) -> str:
        """Of what is captured from it: ids and mask, as little-endian int64."""
        import numpy as np

        digest = hashlib.sha256()
        for numbers in (self.input_ids, self.loss_mask):
            digest.update(np.asarray(numbers, dtype="<i8").tobytes())
        return digest.hexdigest()


class Split:
    """One split of a data folder. Raises TrainingError where it is not one."""

    def __init__(self, data: Path, name: str) -> None:
        from datasets import Dataset, load_from_disk

        folder, self.name = data / name, name
        if not (folder / "state.json").is_file():
            raise TrainingError(f"{folder}: no data set; run `k25serve drafter train data` first, or correct --data")
        loaded = load_from_disk(str(folder))
        assert isinstance(loaded, Dataset)
        self._rows = loaded
        missing = [column for column in COLUMNS if column not in loaded.column_names]
        if missing:
            raise TrainingError(f"{folder}: has no column {', '.join(missing)}; prepare the data again")

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def lengths(self) -> list[int]:
        """Tokens of every row."""
        return [int(length) for length in self._rows["seq_len"]]

    def __getitem__(self, index: int) -> Row:
        """Raises TrainingError where ids and mask do not fit together."""
        row: dict[str, Any] = self._rows[index]
        ids, mask = list(row["input_ids"]), list(row["loss_mask"])
        if not ids or len(ids) != len(mask):
            raise TrainingError(
                f"data/{self.name} row {index}: {len(ids)} input_ids and a loss_mask of {len(mask)}; "
                "prepare the data again"
            )
        return Row(self.name, index, str(row["id"]), ids, mask)
