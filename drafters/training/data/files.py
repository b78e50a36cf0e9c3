"""Rows of JSONL, JSON and Parquet files, with the number of each, from 1."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data.bad_row import BadRow

ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".parquet")
ROWS_AT_ONCE = 1000


def found_files(inputs: Iterable[Path]) -> list[Path]:
    """The files, and those in folders, in the order of their names. Raises TrainingError where there is none."""
    files: list[Path] = []
    for path in inputs:
        inside = sorted(one for one in path.rglob("*") if one.name.endswith(ENDINGS)) if path.is_dir() else [path]
        if not inside or not inside[0].is_file():
            raise TrainingError(
                f"--input {path}: no such file; give a {' or '.join(ENDINGS)} file, or a folder of them"
            )
        if not inside[0].name.endswith(ENDINGS):
            raise TrainingError(f"--input {path}: unknown ending; give a {' or '.join(ENDINGS)} file")
        files += inside
    return files


def read_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Line (or row) number and row; a line that is no JSON comes as the BadRow that tells it.

    Raises TrainingError where the file as a whole cannot be read.
    """
    if path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix == ".json":
        yield from _json(path)
    else:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                yield from _lines(file)
        except (EOFError, gzip.BadGzipFile) as error:
            raise TrainingError(f"{path}: not a whole gzip file ({error}); download it again") from None


def _lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield number, orjson.loads(line)
        except orjson.JSONDecodeError as error:
            yield number, BadRow("no JSON", "line", line[:40].decode(errors="replace"), f"not JSON ({error}); mend it")


def _json(path: Path) -> Iterator[tuple[int, Any]]:
    """A list of rows, or JSONL under another name."""
    with path.open("rb") as file:
        if file.read(64).lstrip()[:1] != b"[":
            file.seek(0)
            yield from _lines(file)
            return
    try:
        rows = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise TrainingError(f"{path}: not valid JSON ({error}); download it again") from None
    yield from enumerate(rows, 1)


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except pa.ArrowException as error:
        raise TrainingError(
            f"{path}: not a whole Parquet file ({str(error).splitlines()[0]}); download it again"
        ) from None
