"""fit/result.json: what came out, with which versions, on which machine."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from k25serve.drafters.tiny.provenance import machine
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.fit.place import Place

FILE = "result.json"
PACKAGES = ("k25serve", "speculators", "torch", "transformers", "datasets", "safetensors")


def write_result(out: Path, result: dict[str, Any], place: Place) -> None:
    """`result` with versions and machine added."""
    versions = {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}
    record = result | {"versions": versions, "machine": machine(place.device)}
    write_whole(out / FILE, (json.dumps(record, indent=2) + "\n").encode())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
