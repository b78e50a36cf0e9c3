"""The packaged data: calibrations, accept curves, devices, models. A user's own file has the same form."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from k25serve.server.errors import UserError


def packaged(name: str) -> dict[str, Any]:
    """A table of bench/plan/data, by file name without its ending."""
    content = files("k25serve.bench.plan").joinpath("data", f"{name}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(content)
    return found


def from_file(option: str, path: Path) -> dict[str, Any]:
    """A user's YAML or JSON file. Raises UserError where it is none."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{option} {path}: not a readable YAML or JSON file ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{option} {path}: holds no mapping; see bench/plan/data for the form")
    return found


def choose(option: str, name: str, table: dict[str, Any]) -> Any:
    """A row by name. Raises UserError with the names there are."""
    if name not in table:
        raise UserError(f"{option} {name}: none of {', '.join(table)}, and no such file")
    return table[name]
