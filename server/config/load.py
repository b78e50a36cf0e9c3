"""Profile files: find one, follow `extends`, apply overrides, validate."""

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from k25serve.drafters.tiny import DRAFTER, TARGET
from k25serve.server.config.profile import Profile
from k25serve.server.errors import ConfigError

PROFILES = Path(__file__).parents[2] / "deploy" / "profiles"
PACKAGED = {"packaged:target": TARGET, "packaged:drafter": DRAFTER}


def profile_names() -> list[str]:
    """Names of the packaged profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def load_profile(
    source: str, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ, *, need_models: bool = True
) -> Profile:
    """Read a packaged profile by name, or a YAML file by path.

    overrides: `dotted.key=value` items, the value read as YAML; they win over the file.
    `target` and `speculation.drafter` may be `packaged:...` or `$NAME`, a variable of `environ` that holds the folder;
    need_models: an unset variable is an error, otherwise it stays as written.
    Raises ConfigError with the key, the value and the remedy.
    """
    data = _read(source, seen=())
    for item in overrides:
        _override(data, item)
    _resolve(data, ("target",), environ, need_models)
    _resolve(data, ("speculation", "drafter"), environ, need_models)
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"profile {source}: {_first_fault(error)}") from None


def _read(source: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if source in seen:
        raise ConfigError(f"profile {source}: extends itself through {' -> '.join((*seen, source))}")
    is_path = "/" in source or source.endswith((".yaml", ".yml"))
    path = Path(source) if is_path else PROFILES / f"{source}.yaml"
    if not path.is_file():
        known = ", ".join(profile_names())
        raise ConfigError(f"profile {source!r} not found: give a YAML file's path or one of {known}")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"profile {source}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"profile {source}: must be a mapping of keys, found {type(data).__name__}")
    parent = data.pop("extends", None)
    data.setdefault("name", path.stem)
    if parent is None:
        return data
    if not isinstance(parent, str):
        raise ConfigError(f"profile {source}: extends must be a profile's name, found {parent!r}")
    if is_path and (path.parent / f"{parent}.yaml").is_file():
        parent = str(path.parent / f"{parent}.yaml")
    return _merge(_read(parent, (*seen, source)), data)


def _merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _override(data: dict[str, Any], item: str) -> None:
    key, separator, text = item.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {item!r}: write it as key=value, for example engine.port=30001")
    *parents, leaf = key.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {item!r}: {parent} is a single value, it has no keys")
    try:
        data[leaf] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"--set {item!r}: the value is not valid YAML; quote it") from None


def _resolve(data: dict[str, Any], keys: tuple[str, ...], environ: Mapping[str, str], need_models: bool) -> None:
    *parents, leaf = keys
    for parent in parents:
        data = data.get(parent) or {}
    value = data.get(leaf) if isinstance(data, dict) else None
    if not isinstance(value, str):
        return
    field = ".".join(keys)
    if value in PACKAGED:
        data[leaf] = str(PACKAGED[value])
    elif value.startswith("$"):
        folder = environ.get(value[1:])
        if not folder and need_models:
            raise ConfigError(
                f"{field}: environment variable {value[1:]} is not set; "
                f"export it with the model's folder, or pass --set {field}=FOLDER"
            )
        data[leaf] = folder or value


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {where!r}{_near_miss(fault['loc'])}; remove it"
    if fault["type"] == "missing":
        return f"key {where!r} is missing; add it"
    message = fault["msg"].removeprefix("Value error, ")
    value = fault["input"]
    shown = f" = {value!r}" if not isinstance(value, dict) else ""
    return f"{where or 'profile'}{shown}: {message[:1].lower()}{message[1:]}"


def _near_miss(location: tuple[int | str, ...]) -> str:
    fields: dict[str, Any] = dict(Profile.model_fields)
    for part in location[:-1]:
        fields = dict(getattr(fields[str(part)].annotation, "model_fields", {}))
    near = difflib.get_close_matches(str(location[-1]), fields, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
