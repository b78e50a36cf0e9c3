"""Which split a conversation belongs to, its place there, and the split's file."""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from k25serve.drafters.training.data.encode import Row
from k25serve.drafters.training.data.report import SplitReport, Tally

TRAIN, HELD_OUT = "train", "held_out"
ROWS_AT_ONCE = 1000
WHOLE = float(1 << 64)


def split_of(opening: str, held_out: float) -> str:
    """From the hash of the opening alone: added data moves nothing, and one question is never in both splits."""
    return HELD_OUT if int(hashlib.sha256(opening.encode()).hexdigest()[:16], 16) / WHOLE < held_out else TRAIN


def order_of(conversation_id: str, seed: int) -> str:
    """The sort key of a conversation: a shuffle that added data doesn't change for the others."""
    return hashlib.sha256(f"{seed}:{conversation_id}".encode()).hexdigest()


class SplitWriter:
    """Writes rows to an Arrow stream; `save` makes a `datasets` folder of it. Memory stays at ROWS_AT_ONCE rows."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        numbers = pa.list_(pa.int64())
        fields = {"input_ids": numbers, "loss_mask": numbers, "seq_len": pa.int64(), "label": pa.string()}
        self._schema = pa.schema([*fields.items(), ("id", pa.string())])
        self._path, self._digest, self._tally = path, hashlib.sha256(), Tally()
        self._waiting: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        import pyarrow as pa

        self._stream = pa.ipc.new_stream(str(self._path), self._schema)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Even where it is empty: a stream without a batch is no data set.
        self._write()
        self._stream.close()

    def add(self, conversation_id: str, label: str, rows: Sequence[Row]) -> None:
        """One conversation's rows, in order."""
        self._tally.conversations += 1
        for row in rows:
            length = len(row.input_ids)
            self._tally.add(label, length, sum(row.loss_mask))
            self._digest.update(f"{conversation_id} {label} {length}\n".encode())
            self._digest.update(struct.pack(f"<{length}q", *row.input_ids) + bytes(row.loss_mask))
            self._waiting.append(
                {
                    "input_ids": row.input_ids,
                    "loss_mask": row.loss_mask,
                    "seq_len": length,
                    "label": label,
                    "id": conversation_id,
                }
            )
        if len(self._waiting) >= ROWS_AT_ONCE:
            self._write()

    def save(self, folder: Path) -> SplitReport:
        """After the stream is closed."""
        import datasets

        shown = datasets.is_progress_bar_enabled()
        datasets.disable_progress_bars()
        try:
            rows = datasets.Dataset.from_file(str(self._path))
            # datasets 5.1 saves an empty set in no file, and cannot load that.
            rows.save_to_disk(str(folder), num_shards=None if len(rows) else 1)
        finally:
            if shown:
                datasets.enable_progress_bars()
        return self._tally.report(self._digest.hexdigest())

    def _write(self) -> None:
        import pyarrow as pa

        self._stream.write_batch(pa.RecordBatch.from_pylist(self._waiting, self._schema))
        self._waiting.clear()
