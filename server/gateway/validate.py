"""Checks a generation request just enough that the engine is never asked what it can't answer. Pure.

Fields that aren't named here pass through untouched, whatever they hold.
"""

from typing import Any

import orjson

from k25serve.server.gateway.errors import InvalidRequestError, ModelNotFoundError
from k25serve.server.gateway.fields import Rule, check_rules, is_bool, is_count, is_number, missing, shown, wrong
from k25serve.server.gateway.validate_messages import check_messages

MAX_STOPS = 16
"""OpenAI takes 4, SGLang any number; each one costs a search through the text of every step."""
MAX_CHOICES = 128
"""OpenAI's own bound; each choice is a request of its own to the engine."""

_SAMPLING = (
    Rule("max_tokens", is_count, "an integer of at least 1, or leave it out"),
    Rule("max_completion_tokens", is_count, "an integer of at least 1, or leave it out"),
    Rule("temperature", lambda v: is_number(v) and 0 <= v <= 2, "a number from 0 to 2"),
    Rule("top_p", lambda v: is_number(v) and 0 < v <= 1, "a number above 0 and at most 1"),
    Rule("n", lambda v: is_count(v) and v <= MAX_CHOICES, f"an integer from 1 to {MAX_CHOICES}"),
    Rule("stream", is_bool, "true or false"),
    Rule("return_spec_tokens_details", is_bool, "true or false"),
)
_STREAM_OPTIONS = (Rule("stream_options.include_usage", is_bool, "true or false"),)
_FORMATS = ("text", "json_object", "json_schema", "structural_tag")


def parse(raw: bytes) -> dict[str, Any]:
    """The request's body as an object.

    Raises:
        InvalidRequestError: not JSON, or JSON that isn't an object.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        what = "empty" if not raw.strip() else f"not valid JSON ({error})"
        raise InvalidRequestError(f"The body is {what}: send a JSON object.", None, code="invalid_json") from error
    if not isinstance(body, dict):
        raise InvalidRequestError(f"The body is {shown(body)}: send a JSON object.", None, code="invalid_json")
    return body


def check_chat(body: dict[str, Any], names: tuple[str, ...], context_length: int | None) -> None:
    """Checks a body for /v1/chat/completions.

    Raises:
        InvalidRequestError: names the field, its value and the remedy.
        ModelNotFoundError: `model` is none of `names`.
    """
    _check_common(body, names, context_length)
    check_messages(body)
    _check_tools(body.get("tools"))


def check_completion(body: dict[str, Any], names: tuple[str, ...], context_length: int | None) -> None:
    """Checks a body for /v1/completions. Raises as check_chat does."""
    _check_common(body, names, context_length)
    prompt = body.get("prompt")
    if prompt is None:
        raise missing("prompt", "a string, a list of strings, a list of token ids or a list of such lists")
    if context_length is not None and isinstance(prompt, list):
        for at, ids in [("prompt", prompt), *((f"prompt[{i}]", ids) for i, ids in enumerate(prompt))]:
            if isinstance(ids, list) and ids and _is_token_ids(ids) and len(ids) >= context_length:
                raise InvalidRequestError(
                    f"{at} has {len(ids)} tokens: send fewer than {context_length}, the model's context length.",
                    at,
                    code="context_length_exceeded",
                )
    if not _is_prompt(prompt):
        raise wrong("prompt", prompt, "a string, or a list, not empty, of strings, of token ids or of lists of these")


def _check_common(body: dict[str, Any], names: tuple[str, ...], context_length: int | None) -> None:
    _check_model(body.get("model"), names)
    check_rules(body, _SAMPLING)
    if context_length is not None:
        for field in ("max_completion_tokens", "max_tokens"):
            if (body.get(field) or 0) > context_length:
                raise wrong(field, body[field], f"at most {context_length}, the model's context length")
    stop = body.get("stop")
    if isinstance(stop, list):
        if len(stop) > MAX_STOPS:
            raise InvalidRequestError(f"stop has {len(stop)} strings: send at most {MAX_STOPS}.", "stop")
        for i, text in enumerate(stop):
            if not isinstance(text, str):
                raise wrong(f"stop[{i}]", text, "a string")
    elif stop is not None and not isinstance(stop, str):
        raise wrong("stop", stop, f"a string or a list of at most {MAX_STOPS} strings")
    options = body.get("stream_options")
    if options is not None:
        if not isinstance(options, dict):
            raise wrong("stream_options", options, 'an object such as {"include_usage": true}')
        check_rules({f"stream_options.{key}": value for key, value in options.items()}, _STREAM_OPTIONS)
    _check_response_format(body.get("response_format"))


def _check_model(model: object, names: tuple[str, ...]) -> None:
    if isinstance(model, str) and model in names:
        return
    served = ", ".join(names)
    if model is None:
        raise missing("model", f"one of: {served}")
    if not isinstance(model, str):
        raise wrong("model", model, f"one of: {served}")
    raise ModelNotFoundError(f"model is {shown(model)}, which is not served here: send one of: {served}.")


def _check_tools(tools: object) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise wrong("tools", tools, "a list of functions")
    for i, tool in enumerate(tools):
        at = f"tools[{i}]"
        if not isinstance(tool, dict):
            raise wrong(at, tool, 'an object such as {"type": "function", "function": {"name": ...}}')
        if tool.get("type") is None:
            raise missing(f"{at}.type", '"function"')
        if tool["type"] != "function":
            raise wrong(f"{at}.type", tool["type"], '"function"')
        function = tool.get("function")
        if function is None:
            raise missing(f"{at}.function", "an object with a name")
        if not isinstance(function, dict):
            raise wrong(f"{at}.function", function, "an object with a name")
        name = function.get("name")
        if name is None:
            raise missing(f"{at}.function.name", "the function's name")
        if not isinstance(name, str) or not name:
            raise wrong(f"{at}.function.name", name, "a string, not empty")


def _check_response_format(given: object) -> None:
    if given is None:
        return
    if not isinstance(given, dict):
        raise wrong("response_format", given, 'an object such as {"type": "json_object"}')
    kind = given.get("type")
    if kind is None:
        raise missing("response_format.type", f"one of: {', '.join(_FORMATS)}")
    if kind not in _FORMATS:
        raise wrong("response_format.type", kind, f"one of: {', '.join(_FORMATS)}")
    if kind != "json_schema":
        return
    # SGLang also reads the schema from response_format.schema (set_json_schema in its protocol.py, 0.5.23).
    schema = given.get("json_schema")
    if schema is None:
        if given.get("schema") is None:
            raise missing("response_format.json_schema", "an object with name and schema")
        return
    if not isinstance(schema, dict):
        raise wrong("response_format.json_schema", schema, "an object with name and schema")
    if not isinstance(schema.get("name"), str):
        raise missing("response_format.json_schema.name", "the schema's name")
    if not isinstance(schema.get("schema"), dict):
        raise missing("response_format.json_schema.schema", "a JSON schema as an object")


def _is_prompt(prompt: object) -> bool:
    if isinstance(prompt, str):
        return True
    if not isinstance(prompt, list) or not prompt:
        return False
    return (
        all(isinstance(item, str) for item in prompt)
        or _is_token_ids(prompt)
        or all(isinstance(item, list) and item and _is_token_ids(item) for item in prompt)
    )


def _is_token_ids(items: list[Any]) -> bool:
    return all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in items)
