"""Writes an adapted drafter: config.json, one safetensors file, provenance.json. All or nothing."""

import hashlib
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from k25serve.drafters.adapters.data import Data, Stored
from k25serve.drafters.checkpoint import AdaptError

MODEL, CONFIG, PROVENANCE = "model.safetensors", "config.json", "provenance.json"
CHUNK_BYTES = 1 << 26


@contextmanager
def new_folder(path: Path) -> Any:
    """A folder to fill beside `path`, which becomes `path` if the body ends well and is removed if not.

    Raises AdaptError where `path` exists and is not an empty folder.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise AdaptError(f"--out {path}: exists and is not empty; choose another folder, or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        if path.exists():
            path.rmdir()
        unfinished.replace(path)
    finally:
        if unfinished.exists():
            shutil.rmtree(unfinished)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_safetensors(path: Path, tensors: Mapping[str, Data]) -> None:
    """One safetensors file of `tensors`, in the order of their names. Memory stays at a chunk."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in sorted(tensors):
        data = tensors[name]
        end = offset + data.nbytes
        header[name] = {"dtype": data.dtype, "shape": list(data.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            _write(file, tensors[name])


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(file: IO[bytes], data: Data) -> None:
    if isinstance(data, Stored):
        _copy(file, data)
        return
    for chunk in data.chunks():
        file.write(chunk)


def _copy(file: IO[bytes], data: Stored) -> None:
    """In the kernel: gigabytes never pass through this process."""
    file.flush()
    tensor = data.tensor
    with tensor.file.open("rb") as source:
        done = 0
        while done < tensor.nbytes:
            count = min(tensor.nbytes - done, CHUNK_BYTES)
            sent = os.sendfile(file.fileno(), source.fileno(), tensor.offset + done, count)
            if not sent:
                raise AdaptError(f"{tensor.file}: ends inside {tensor.name!r}; the download is not complete")
            done += sent
