"""Thinking on or off, in every form that clients use, brought to the one that K2.5's chat template reads. Pure.

| form | whose |
|---|---|
| `chat_template_kwargs: {"thinking": bool}` | K2.5's template, in SGLang and vLLM |
| `chat_template_kwargs: {"enable_thinking": bool}` | other models' templates; clients reuse it |
| `thinking: {"type": "enabled" or "disabled"}` | Moonshot |
| `enable_thinking: bool` | other providers |
| `reasoning: {"enabled": bool}` or `{"effort": ...}` | OpenRouter |
| `reasoning_effort: "none"`, or another effort | OpenAI |
"""

from collections.abc import Iterator
from typing import Any

from k25serve.server.gateway.errors import InvalidRequestError
from k25serve.server.gateway.fields import shown, wrong
from k25serve.server.gateway.settings import ThinkingSettings

_TEMPLATE = "chat_template_kwargs"
THINKING_FIELDS = (_TEMPLATE, "thinking", "enable_thinking", "reasoning", "reasoning_effort")
"""Without any of them a request says nothing about thinking."""
_TYPES = {"enabled": True, "disabled": False}


def thinking_mode(body: dict[str, Any]) -> bool | None:
    """What a request says about thinking; None: nothing.

    Raises:
        InvalidRequestError: a form has another type, or two forms disagree.
    """
    if body.keys().isdisjoint(THINKING_FIELDS):
        return None
    first: tuple[str, bool] | None = None
    for form, mode in _forms(body):
        if first is not None and first[1] is not mode:
            raise InvalidRequestError(
                f"{form} turns thinking {_word(mode)}, {first[0]} turns it {_word(first[1])}: send one of them.", form
            )
        first = first or (form, mode)
    return None if first is None else first[1]


def thinking_fields(body: dict[str, Any], settings: ThinkingSettings) -> dict[str, Any]:
    """The fields to set so that the template hears of the mode, with the mode's sampling defaults.

    Raises:
        InvalidRequestError: see thinking_mode.
    """
    mode = thinking_mode(body)
    wanted = settings.default if mode is None else mode
    fields: dict[str, Any] = {}
    given = body.get(_TEMPLATE) or {}
    if wanted is not None and given.get("thinking") is not wanted:
        fields[_TEMPLATE] = {**given, "thinking": wanted}
    sampling = settings.sampling_off if wanted is False else settings.sampling_on
    for name, value in sampling.given.items():
        if body.get(name) is None:
            fields[name] = value
    return fields


def _forms(body: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    template = body.get(_TEMPLATE)
    if template is not None and not isinstance(template, dict):
        raise wrong(_TEMPLATE, template, 'an object such as {"thinking": false}')
    for name in ("thinking", "enable_thinking"):
        if template and template.get(name) is not None:
            yield f"{_TEMPLATE}.{name}", _bool(f"{_TEMPLATE}.{name}", template[name])
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        kind = thinking.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise wrong("thinking.type", kind, "enabled or disabled")
        yield "thinking", _TYPES[kind]
    elif thinking is not None:
        yield "thinking", _bool("thinking", thinking)
    if body.get("enable_thinking") is not None:
        yield "enable_thinking", _bool("enable_thinking", body["enable_thinking"])
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        if reasoning.get("enabled") is not None:
            yield "reasoning.enabled", _bool("reasoning.enabled", reasoning["enabled"])
        if reasoning.get("effort") is not None:
            yield "reasoning.effort", reasoning["effort"] != "none"
    if body.get("reasoning_effort") is not None:
        yield "reasoning_effort", body["reasoning_effort"] != "none"


def _bool(form: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{form} is {shown(value)}: send true or false.", form)
    return value


def _word(mode: bool) -> str:
    return "on" if mode else "off"
