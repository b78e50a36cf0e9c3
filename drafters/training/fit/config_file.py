"""Settings by name: the packaged configs, a YAML file, and single keys on top."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.settings import shown, validated

FOLDER = Path(__file__).with_name("configs")


def config_names() -> list[str]:
    """The packaged ones."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_options(name: str, changes: Sequence[str] = ()) -> FitOptions:
    """A packaged config by its name, else a YAML file. changes: `dotted.key=value`, the value read as YAML.

    Raises TrainingError, which names the key.
    """
    packaged = name in config_names()
    path = FOLDER / f"{name}.yaml" if packaged else Path(name)
    if not path.is_file():
        raise TrainingError(f"--config {shown(name)}: no such file; give one of {', '.join(config_names())}, or a file")
    values = _parse(path.read_text(encoding="utf-8", errors="replace"), f"--config {shown(name)}")
    if not isinstance(values, dict):
        raise TrainingError(f"--config {shown(name)}: must be a mapping of keys; compare it with a packaged one")
    for change in changes:
        _put(values, change)
    return validated(FitOptions, values)


def _put(values: dict[str, Any], change: str) -> None:
    key, found, text = change.partition("=")
    if not found or not key:
        raise TrainingError(f"--set {shown(change)}: write it as key=value, for example optimizer.learning_rate=0.001")
    *parents, leaf = key.split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise TrainingError(f"--set {shown(change)}: {parent} is a single value, it has no keys; name another key")
        values = inner
    values[leaf] = _parse(text, f"--set {shown(change)}")


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TrainingError(f"{where}: not YAML ({str(error).splitlines()[0]}); mend it") from None
