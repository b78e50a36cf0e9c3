"""Settings of a step: frozen, unknown keys are errors, and a wrong value is told in one line with its remedy."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from k25serve.drafters.checkpoint.errors import TrainingError

Model = TypeVar("Model", bound=BaseModel)
SHOWN = 80  # characters of a value


class Settings(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def validated(model: type[Model], values: Mapping[str, Any], named: Callable[[str], str] = str) -> Model:
    """`values` as a `model`. Raises TrainingError with the first fault; `named`: how the user writes a key."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise TrainingError(first_fault(error, model, named)) from None


def first_fault(error: ValidationError, model: type[BaseModel], named: Callable[[str], str] = str) -> str:
    """The first fault: the key, its value, what belongs there."""
    fault = error.errors(include_url=False)[0]
    place, value = fault["loc"], fault["input"]
    key = named(".".join(str(part) for part in place))
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key}{_near_miss(place, model)}; remove it"
    if fault["type"] == "missing":
        return f"{key} is missing; add it"
    message = str(fault["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not key:
        return message
    return f"{key} = {shown(value)}: {message}" if not isinstance(value, dict) else f"{key}: {message}"


def shown(value: Any) -> str:
    """A value as it may stand in one line."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(part if part.isprintable() else "?" for part in text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _near_miss(place: tuple[int | str, ...], outer: type[BaseModel]) -> str:
    model: type[BaseModel] | None = outer
    for part in place[:-1]:
        if isinstance(part, str):
            field = model.model_fields.get(part) if model else None
            model = _model_in(field.annotation) if field else None
    near = difflib.get_close_matches(str(place[-1]), model.model_fields if model else (), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for item in get_args(annotation) if (model := _model_in(item))), None)
