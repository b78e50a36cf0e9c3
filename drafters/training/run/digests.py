"""Hashes of settings, of inputs and of what each step made."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.shards import Sidecar, bad_files, plan_shards

WEIGHTS = (".safetensors", ".bin", ".pt")
SMALL = 1 << 28


def digest(value: Any) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def of_files(paths: Iterable[Path]) -> str | None:
    """Of several files together; None where one is missing."""
    found = list(paths)
    return digest([sha256(path) for path in found]) if all(path.is_file() for path in found) else None


def of_model(folder: Path) -> dict[str, str]:
    """A model folder's small files by name: config, tokenizer, template; of its weights the names and sizes."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {
        path.name: str(path.stat().st_size) if path.suffix in WEIGHTS or path.stat().st_size > SMALL else sha256(path)
        for path in files
    }


def of_states(data: Path, hidden: Path, options: CaptureOptions) -> str | None:
    """Of all sealed shards, by the hashes in their sidecars; None where one is missing or a file's size is wrong."""
    sealed = []
    for shard in plan_shards(data, options):
        sidecar = Sidecar.read(shard.sidecar(hidden))
        if sidecar is None or (sidecar.start, sidecar.stop) != (shard.start, shard.stop):
            return None
        if bad_files(sidecar, shard.folder(hidden), "size", {}):
            return None
        sealed.append([(file.row, file.sha256, sidecar.layers) for file in sidecar.files])
    return digest(sealed)
