"""How a field of a request is checked, and how the error names it. Pure."""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from k25serve.server.gateway.errors import InvalidRequestError

_LONGEST_VALUE = 80


class Rule(NamedTuple):
    """`field`, where given and not null, must pass `holds`; `wanted` says so in words."""

    field: str
    holds: Callable[[Any], bool]
    wanted: str


def check_rules(body: dict[str, Any], rules: Iterable[Rule]) -> None:
    """Raises InvalidRequestError for the first rule that is broken. null counts as absent, as OpenAI has it."""
    for field, holds, wanted in rules:
        value = body.get(field)
        if value is not None and not holds(value):
            raise wrong(field, value, wanted)


def wrong(param: str, value: object, wanted: str) -> InvalidRequestError:
    """The error for a field that is there but wrong."""
    return InvalidRequestError(f"{param} is {shown(value)}: send {wanted}.", param)


def missing(param: str, wanted: str) -> InvalidRequestError:
    """The error for a field that is needed and absent."""
    return InvalidRequestError(f"{param} is missing: send {wanted}.", param, code="missing_required_parameter")


def shown(value: object) -> str:
    """A value in a message: a scalar as JSON, cut to fit; of a list or an object, its size."""
    if isinstance(value, dict) and value:
        return f"an object of {len(value)} fields"
    if isinstance(value, list) and value:
        return f"a list of {len(value)} items"
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return f"{json.dumps(value[:_LONGEST_VALUE], ensure_ascii=False)}... ({len(value)} characters)"
    return json.dumps(value, ensure_ascii=False)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """An integer of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_bool(value: object) -> bool:
    return isinstance(value, bool)
