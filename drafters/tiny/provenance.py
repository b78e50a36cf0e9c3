"""What a model folder says about its making: provenance.json."""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

FILE = "provenance.json"
PACKAGES = ("torch", "transformers", "tokenizers", "safetensors")


def machine(device: torch.device) -> dict[str, str]:
    """The processor's name, and the GPU's where it was used."""
    names = [line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    found = {"cpu": names[0] if names else platform.machine()}
    return found | ({"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else {})


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def file_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of the folder but provenance.json itself."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != FILE)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def write_provenance(folder: Path, record: dict[str, Any]) -> None:
    """Write `record` with the folder's file hashes added."""
    (folder / FILE).write_text(json.dumps(record | {"sha256": file_hashes(folder)}, indent=2) + "\n")


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
