"""The packaged data: calibrations, accept curves, devices, models. A user's own file has the same form."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from k25serve.server.config.fault import first_fault
from k25serve.server.config.shown import one_line, shown
from k25serve.server.config.yaml_file import read_yaml
from k25serve.server.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


class Part(BaseModel):
    """Base of what a file holds: frozen, no unknown keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def packaged(name: str) -> dict[str, Any]:
    """A table of bench/plan/data, by file name without its ending."""
    content = files("k25serve.bench.plan").joinpath("data", f"{name}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(content)
    return found


def is_file(path: Path) -> bool:
    """Whether `path` is a file; what can be no file's name, or lies where nobody may look, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def from_file(option: str, path: Path) -> dict[str, Any]:
    """A user's YAML or JSON file. Raises UserError where it is none."""
    if path.suffix == ".json":
        try:
            found = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise UserError(f"{option} {path}: not JSON: line {error.lineno}: {error.msg}") from None
    else:
        found = read_yaml(f"{option} {path}", path)
    if not isinstance(found, dict):
        raise UserError(f"{option} {path}: holds no mapping but {shown(found)}; see bench/plan/data for the form")
    return found


def checked(place: str, model: type[Model], content: Any) -> Model:
    """`content` as a model. Raises UserError in one line: `place` (option and file), the key, its value, the remedy."""
    try:
        # Strict, so that `true` is no number; through JSON, since strict Python input would refuse lists.
        return model.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise UserError(one_line(f"{place}: {first_fault(error, model)}")) from None
    except RecursionError:
        raise UserError(f"{place}: nested too deeply; see bench/plan/data for the form") from None


def choose(place: str, name: str, table: dict[str, Any]) -> Any:
    """A row by name. Raises UserError with the names there are."""
    if name not in table:
        raise UserError(one_line(f"{place} {name}: none of {', '.join(table)}, and no such file"))
    return table[name]
