"""run.yaml: a packaged config by name, a file, single keys on top; written back as it was understood."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.run.options import RunConfig
from k25serve.drafters.training.settings import shown, validated

FOLDER = Path(__file__).with_name("configs")
PACKAGED = "packaged:"
HEAD = (
    "# What this run was asked for. Change it here, then: k25serve drafter train run --config RUN/run.yaml --out RUN\n"
)


def config_names() -> list[str]:
    """The packaged ones."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_config(name: str, changes: Sequence[str] = ()) -> RunConfig:
    """`packaged:NAME` or a YAML file. changes: `dotted.key=value`, the value read as YAML. Raises TrainingError."""
    where = f"--config {shown(name)}"
    values = _parse(_file(name).read_text(encoding="utf-8", errors="replace"), where)
    if not isinstance(values, dict):
        raise TrainingError(f"{where}: must be a mapping of keys; compare it with packaged:k25")
    for change in changes:
        put(values, change)
    return validated(RunConfig, values, lambda key: f"{where}: {key}" if key else "")


def config_text(name: str, changes: Sequence[str] = ()) -> str:
    """The config as YAML: as it was written, with its comments, where nothing is changed. Raises TrainingError."""
    config = load_config(name, changes)
    return _dump(config) if changes else _file(name).read_text(encoding="utf-8")


def _file(name: str) -> Path:
    packaged = name.startswith(PACKAGED)
    path = FOLDER / f"{name.removeprefix(PACKAGED)}.yaml" if packaged else Path(name)
    if not (name.removeprefix(PACKAGED) in config_names() if packaged else path.is_file()):
        known = ", ".join(PACKAGED + one for one in config_names())
        raise TrainingError(f"--config {shown(name)}: no such file; give one of {known}, or a file")
    return path


def put(values: dict[str, Any], change: str) -> None:
    """Set one key, as `--set` gives it. Raises TrainingError."""
    key, found, text = change.partition("=")
    if not found or not key:
        raise TrainingError(f"--set {shown(change)}: write it as key=value, for example fit.max_minutes=5")
    *parents, leaf = key.split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if inner is None:
            inner = values[parent] = {}
        if not isinstance(inner, dict):
            raise TrainingError(f"--set {shown(change)}: {parent} is a single value, it has no keys; name another key")
        values = inner
    values[leaf] = _parse(text, f"--set {shown(change)}")


def write_config(config: RunConfig, path: Path) -> None:
    """All keys, the defaults as well."""
    write_whole(path, (HEAD + _dump(config)).encode())


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`key: old -> new`, for each key that differs."""
    old, new = dict(_flat("", before)), dict(_flat("", after))
    keys = [*old, *(key for key in new if key not in old)]
    return [f"{key}: {shown(old.get(key))} -> {shown(new.get(key))}" for key in keys if old.get(key) != new.get(key)]


def _dump(config: RunConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    else:
        yield prefix, value


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise TrainingError(f"{where}: not YAML ({str(error).splitlines()[0]}); mend it") from None
