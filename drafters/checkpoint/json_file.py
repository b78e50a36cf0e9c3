"""Reads a JSON object from a file, and says what is wrong with it in one line."""

import json
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError


def read_object(path: Path) -> dict[str, Any]:
    """The object in `path`. Raises CheckpointError where the file is missing or holds none."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; point at a Hugging Face model folder") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); correct the path or its rights") from None
    except RecursionError:
        raise CheckpointError(f"{path}: nested too deeply to be a model's file; download it again") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON ({error}); download it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds {type(value).__name__} where an object belongs; download it again")
    return value


def read_object_if_there(path: Path) -> dict[str, Any]:
    """The object in `path`, empty where there is no such file."""
    return read_object(path) if path.is_file() else {}
