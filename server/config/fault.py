"""What is wrong with a profile, or another file of keys, in the words of its keys."""

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from k25serve.server.config.profile import Profile
from k25serve.server.config.shown import shown


def first_fault(error: ValidationError, model: type[BaseModel] = Profile) -> str:
    """The first fault that pydantic found in what should be a `model`: the key, its value, what belongs there."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    value = fault["input"]
    if fault["type"] == "extra_forbidden":
        return f"unknown key {shown(where)}{_near_miss(fault['loc'], model)}; remove it"
    if fault["type"] == "missing":
        return f"key {where!r} is missing; add it"
    if fault["type"] == "json_invalid":
        return f"keys or values cannot be taken ({fault['ctx']['error']}); nest them less deeply, write them in UTF-8"
    if fault["type"] == "model_type":
        if value is None:
            return f"key {where!r} is missing: nothing follows it; add its keys"
        return f"{where} = {shown(value)}: must be a mapping of keys"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["loc"] == () and fault["type"] == "value_error":
        return message  # of how keys go together: it names them
    told = f" = {shown(value)}" if not isinstance(value, dict) else ""
    return (
        f"{where or model.__name__.lower()}{told}: {message[:1].lower()}{message[1:]}{_quoting(fault['type'], value)}"
    )


def _quoting(kind: str, value: Any) -> str:
    if kind not in ("literal_error", "string_type"):
        return ""
    if isinstance(value, bool):
        return "; YAML reads a bare on, off, yes or no as true or false: quote it"
    return "; quote it" if isinstance(value, (int, float)) else ""


def _near_miss(location: tuple[int | str, ...], outer: type[BaseModel]) -> str:
    model: type[BaseModel] | None = outer
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    near = difflib.get_close_matches(str(location[-1]), model.model_fields if model else (), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section itself, or that of the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for item in get_args(annotation) if (model := _model_in(item))), None)
