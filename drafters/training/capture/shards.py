"""Shards: consecutive rows of a split, sealed by a sidecar once all of their files are there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from k25serve.drafters.training.capture.files import Meaning, hash_of, name_of, write_whole
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.rows import Row, Split

MEANING = (
    "hidden_states[:, i] is what leaves decoder layer layers[i], counted from 0; hidden_states[:, -1] is what leaves "
    "last_layer, before the final norm"
)


@dataclass(frozen=True)
class Shard:
    """Rows start..stop of a split. tokens: of all of them."""

    split: str
    index: int
    start: int
    stop: int
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.split} shard {self.index}"

    @property
    def rows(self) -> range:
        return range(self.start, self.stop)

    def folder(self, out: Path) -> Path:
        """Where its files lie, under a run's `hidden/`."""
        return out / self.split

    def sidecar(self, out: Path) -> Path:
        """The file that seals it."""
        return self.folder(out) / f"shard-{self.index}.json"

    def nbytes(self, meaning: Meaning) -> int:
        """What its files take, nearly."""
        return meaning.nbytes(self.tokens) + (len(self.rows) - 1) * meaning.nbytes(0)


class File(BaseModel):
    """One sample's file. inputs: hash of the ids and the mask that it was made from."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    row: int
    id: str
    tokens: int
    inputs: str
    sha256: str
    bytes: int


class Sidecar(BaseModel):
    """`shard-<k>.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = 1
    split: str
    index: int
    start: int
    stop: int
    layers: tuple[int, ...]
    last_layer: int
    hidden_size: int
    dtype: Literal["bfloat16"] = "bfloat16"
    meaning: str = MEANING
    target_config_sha256: str
    sglang: str
    engine: Mapping[str, Any]
    capture: Mapping[str, Any]
    files: tuple[File, ...]

    def write(self, path: Path) -> None:
        write_whole(path, self.model_dump_json(indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "Sidecar | None":
        """None where there is none, or none that can be read: then the shard is not sealed."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    @property
    def states(self) -> Meaning:
        """What the states of its files are."""
        return Meaning(self.layers, self.last_layer, self.hidden_size)

    def describes(self, shard: Shard, meaning: Meaning, target_config_sha256: str) -> bool:
        """Whether it is of the same rows, states and target."""
        mine = (self.start, self.stop, self.states, self.target_config_sha256)
        return mine == (shard.start, shard.stop, meaning, target_config_sha256)


def plan_shards(data: Path, options: CaptureOptions) -> tuple[Shard, ...]:
    """Every shard of the data, train before held_out. Raises TrainingError where a split is not there."""
    return tuple(shard for name in options.splits for shard in _of(Split(data, name), options.rows_per_shard))


def bad_files(sidecar: Sidecar, folder: Path, verify: Literal["hash", "size"], rows: Mapping[int, Row]) -> set[int]:
    """Rows of a sealed shard whose file is not what was sealed, or whose data has changed since.

    rows: those to compare the data of, by index.
    """
    bad = set()
    for file in sidecar.files:
        path = folder / name_of(file.row)
        row = rows.get(file.row)
        if row is not None and row.sha256 != file.inputs:
            bad.add(file.row)
        elif verify == "hash":
            found = hash_of(path)
            if found is None or (found.sha256, found.size) != (file.sha256, file.bytes):
                bad.add(file.row)
        elif not path.is_file() or path.stat().st_size != file.bytes:
            bad.add(file.row)
    return bad


def drop_shard(out: Path, shard: Shard) -> None:
    """Remove a shard's files; its sidecar first, so that what is left of it after a kill is captured again."""
    shard.sidecar(out).unlink(missing_ok=True)
    for index in shard.rows:
        (shard.folder(out) / name_of(index)).unlink(missing_ok=True)


def _of(split: Split, rows_per_shard: int) -> Iterator[Shard]:
    lengths = split.lengths
    for index, start in enumerate(range(0, len(lengths), rows_per_shard)):
        part = lengths[start : start + rows_per_shard]
        yield Shard(split.name, index, start, start + len(part), sum(part))
