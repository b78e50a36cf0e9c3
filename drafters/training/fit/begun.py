"""fit/settings.json: what a training was begun with. It goes on with nothing else."""

import json
from pathlib import Path
from typing import Any

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.checkpoint import Target
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.fit.options import FitOptions

FILE = "settings.json"
# What may change between two starts: the result is the same.
FREE = {"loader_workers", "verify", "checkpoint_every_steps", "checkpoint_every_seconds"}
HASHED = ("data/report.json", "vocab/vocab.safetensors", "vocab/report.json")


def settle(out: Path, options: FitOptions, inputs: dict[str, str]) -> None:
    """Note options and inputs in a new `out`. Raises TrainingError where `out` was begun with others."""
    path = out / FILE
    wanted: dict[str, Any] = {"options": options.model_dump(mode="json"), "inputs": inputs}
    if path.is_file():
        begun = read_object(path)
        for part, remedy in (
            ("options", "go on with the same settings, or give another --out"),
            ("inputs", "these files have changed since: give another --out, or remove this one"),
        ):
            different = _differences(begun.get(part), wanted[part])
            if different:
                raise TrainingError(f"{out}: begun with other {part} ({', '.join(different)}); {remedy}")
    out.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(wanted, indent=2) + "\n").encode())


def hash_inputs(run: Path, target: Target) -> dict[str, str]:
    """SHA-256 by name: reports, vocabulary, every sidecar (which holds its files' hashes), the target's config."""
    paths = [run / name for name in HASHED if (run / name).is_file()]
    paths += sorted((run / "hidden").glob("*/shard-*.json"))
    found = {path.relative_to(run).as_posix(): sha256(path) for path in paths}
    return {**found, "target/config.json": sha256(target.folder / "config.json")}


def _differences(begun: Any, wanted: dict[str, Any]) -> list[str]:
    if not isinstance(begun, dict):
        return ["unreadable"]
    keys = sorted((set(begun) | set(wanted)) - FREE)
    return [key for key in keys if begun.get(key) != wanted.get(key)]
