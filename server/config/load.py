"""Profile files: find one, follow `extends`, apply overrides, validate."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from k25serve.server.config.fault import first_fault
from k25serve.server.config.models import resolve_model
from k25serve.server.config.profile import Profile
from k25serve.server.config.shown import one_line, shown
from k25serve.server.config.yaml_file import parse_yaml, read_yaml
from k25serve.server.errors import ConfigError

PROFILES = Path(__file__).parents[2] / "deploy" / "profiles"
EXTENDS_AT_MOST = 16
KEY_PARTS_AT_MOST = 16


def profile_names() -> list[str]:
    """Names of the packaged profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def load_profile(
    source: str, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ, *, need_models: bool = True
) -> Profile:
    """Read a packaged profile by name, or a YAML file by path.

    overrides: `dotted.key=value` items, the value read as YAML; they win over the file.
    `target` and `speculation.drafter` may be `packaged:...`, or begin with `~` or with `$NAME`, a variable of `environ`
    that holds a folder; need_models: an unset variable is an error, otherwise it stays as written.
    Raises ConfigError with the key, the value and the remedy, in one line.
    """
    try:
        return _load(source, overrides, environ, need_models)
    except ConfigError as error:
        raise ConfigError(one_line(str(error))) from None


def _load(source: str, overrides: Sequence[str], environ: Mapping[str, str], need_models: bool) -> Profile:
    data = _read(source, seen=())
    for item in overrides:
        _override(data, item)
    resolve_model(data, ("target",), environ, need_models)
    resolve_model(data, ("speculation", "drafter"), environ, need_models)
    try:
        # Strict, so that `true` is no number; through JSON, since strict Python input would refuse lists and paths.
        return Profile.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise ConfigError(f"profile {source}: {first_fault(error)}") from None


def _read(source: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if source in seen:
        raise ConfigError(f"profile {source}: extends itself through {' -> '.join((*seen, source))}")
    if len(seen) > EXTENDS_AT_MOST:
        raise ConfigError(
            f"profile {seen[0]}: extends more than {EXTENDS_AT_MOST} profiles in a row; shorten the chain"
        )
    packaged = PROFILES / f"{source}.yaml"
    is_path = "/" in source or source.lower().endswith((".yaml", ".yml")) or not _is_file(packaged)
    path = Path(source) if is_path else packaged
    if not _is_file(path):
        known = ", ".join(profile_names())
        raise ConfigError(f"profile {shown(source)} not found: give a YAML file's path or one of {known}")
    data = read_yaml(f"profile {source}", path)
    if not isinstance(data, dict):
        raise ConfigError(f"profile {source}: must be a mapping of keys, found {type(data).__name__}")
    parent = data.pop("extends", None)
    data.setdefault("name", os.fsencode(path.stem).decode(errors="replace"))
    if parent is None:
        return data
    if not isinstance(parent, str):
        raise ConfigError(f"profile {source}: extends must be a profile's name, found {shown(parent)}")
    if is_path and _is_file(path.parent / f"{parent}.yaml"):
        parent = str(path.parent / f"{parent}.yaml")
    return _merge(_read(parent, (*seen, source)), data)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # Too long a name, or a folder that may not be searched: there is nothing to read either way.
        return False


def _merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _override(data: dict[str, Any], item: str) -> None:
    key, separator, text = item.partition("=")
    *parents, leaf = key.split(".")
    if not separator or not key or len(parents) >= KEY_PARTS_AT_MOST:
        raise ConfigError(f"--set {shown(item)}: write it as key=value, for example engine.port=30001")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {shown(item)}: {parent} is a single value, it has no keys")
    data[leaf] = parse_yaml(f"--set {shown(item)}", text)
