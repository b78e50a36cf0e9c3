"""Reads a JSON object from a file, and says what is wrong with it in one line."""

import json
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError


def read_object(path: Path) -> dict[str, Any]:
    """The object in `path`. Raises CheckpointError where the file is missing or holds none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; point at a Hugging Face model folder") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); correct the path or its rights") from None
    return object_in(raw, str(path))


def object_in(raw: bytes, where: str) -> dict[str, Any]:
    """The object that `raw` is. where: begins the message of the CheckpointError where it is none."""
    try:
        value = json.loads(raw)
    except RecursionError:
        raise CheckpointError(f"{where}: nested too deeply to be a model's file; download it again") from None
    except ValueError as error:
        raise CheckpointError(f"{where}: not valid JSON ({error}); download it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{where}: holds no JSON object but {type(value).__name__}; download it again")
    return value


def read_object_if_there(path: Path) -> dict[str, Any]:
    """The object in `path`, empty where there is no such file."""
    return read_object(path) if path.is_file() else {}
