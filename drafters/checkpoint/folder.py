"""A model folder read lazily: its config at once, headers when a name is asked for, a tensor's bytes when those are."""

import array
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError
from k25serve.drafters.checkpoint.header import Tensor, read_header
from k25serve.drafters.checkpoint.json_file import read_object
from k25serve.drafters.checkpoint.near_miss import did_you_mean

INDEX = "model.safetensors.index.json"


class Checkpoint:
    """A folder with config.json and safetensors, in one file or sharded with an index.

    `opened` names the files whose headers were read; a name that the index knows opens only its own shard.

    Raises:
        CheckpointError: no such folder, no config.json, no safetensors, or a file that is damaged or missing.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: no such folder; download the model there, or point at another folder")
        self.folder = folder
        self.config: dict[str, Any] = read_object(folder / "config.json")
        self._headers: dict[Path, dict[str, Tensor]] = {}

    @cached_property
    def shards(self) -> dict[str, Path]:
        """The file of each tensor: from the index where there is one, else from the headers."""
        index = self.folder / INDEX
        if not index.is_file():
            return {name: path for path in self.files for name in self._header(path)}
        weight_map = read_object(index).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
            raise CheckpointError(f"{index}: has no weight_map of names to files; download it again")
        return {name: self.folder / file for name, file in weight_map.items()}

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The safetensors files, in the order of their names."""
        files = tuple(sorted(self.folder.glob("*.safetensors")))
        if not files:
            other = next(iter(sorted([*self.folder.glob("*.bin"), *self.folder.glob("*.pt")])), None)
            hint = f"{other.name} is pickle, save it as safetensors" if other else "the download is not complete"
            raise CheckpointError(f"{self.folder}: holds no *.safetensors; {hint}")
        return files

    @property
    def opened(self) -> tuple[Path, ...]:
        """Files whose headers were read so far."""
        return tuple(self._headers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tensors, sorted."""
        return tuple(sorted(self.shards))

    def __contains__(self, name: str) -> bool:
        return name in self.shards

    def tensor(self, name: str) -> Tensor:
        """One tensor's place, dtype and shape. Raises CheckpointError with near names where it is missing."""
        if name not in self.shards:
            raise CheckpointError(f"{self.folder}: has no tensor {name!r}{did_you_mean(name, self.shards)}")
        path = self.shards[name]
        if not path.is_file():
            raise CheckpointError(
                f"{path}: missing, though {INDEX} says that it holds {name!r}; the download is not complete"
            )
        header = self._header(path)
        if name not in header:
            raise CheckpointError(f"{path}: holds no {name!r}, though {INDEX} says so; download both again")
        return header[name]

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, by name: opens all headers."""
        return {name: self.tensor(name) for name in self.names}

    def first_of(self, names: Iterable[str]) -> Tensor | None:
        """The first of `names` that is there."""
        return next((self.tensor(name) for name in names if name in self), None)

    def _header(self, path: Path) -> dict[str, Tensor]:
        if path not in self._headers:
            self._headers[path] = read_header(path)
        return self._headers[path]


def read_bytes(tensor: Tensor) -> bytes:
    """A whole tensor, little-endian as it is stored. For small ones."""
    return b"".join(read_chunks(tensor))


def read_chunks(tensor: Tensor, chunk_bytes: int = 1 << 24) -> Iterator[bytes]:
    """A tensor piece by piece."""
    with tensor.file.open("rb") as file:
        file.seek(tensor.offset)
        left = tensor.nbytes
        while left:
            chunk = file.read(min(left, chunk_bytes))
            if not chunk:
                raise CheckpointError(f"{tensor.file}: ends inside {tensor.name!r}; the download is not complete")
            left -= len(chunk)
            yield chunk


def read_rows(tensor: Tensor, rows: Iterable[int]) -> Iterator[bytes]:
    """Single rows [dimension 0] of a tensor, in the order asked for."""
    with tensor.file.open("rb") as file:
        for row in rows:
            file.seek(tensor.offset + row * tensor.row_bytes)
            yield file.read(tensor.row_bytes)


def read_ints(tensor: Tensor) -> list[int]:
    """A small integer tensor [n] (I64, I32) as numbers. Raises CheckpointError for other dtypes."""
    codes = {"I64": "q", "I32": "i"}
    if tensor.dtype not in codes or len(tensor.shape) != 1:
        raise CheckpointError(
            f"{tensor.file}: {tensor.name!r} is {tensor.dtype} {list(tensor.shape)}, an integer list belongs there; "
            "convert the drafter again"
        )
    values = array.array(codes[tensor.dtype], read_bytes(tensor))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
