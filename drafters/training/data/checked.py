"""Parts of a row, each with its type made sure of. Raise BadRow with the field's path."""

from typing import Any

from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import REASONING, Message

TEXT_PARTS = ("text", "input_text", "output_text")
THINK, THINK_END = "<think>", "</think>"


def rows_of(value: Any, field: str) -> list[dict[str, Any]]:
    """A list of objects with at least one."""
    if not isinstance(value, list) or not value:
        raise BadRow(f"{field}: none", field, value, "a list of at least one message belongs there")
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            raise BadRow(f"{field}: no object", f"{field}[{place}]", item, "an object belongs there")
    return value


def text(value: Any, field: str) -> str:
    """A string; None is an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRow("no text", field, value, "a string belongs there")
    return value


def content(value: Any, field: str) -> str | list[Any]:
    """Text, or parts: strings, {type: text, text} and media, whose type is kept."""
    if not isinstance(value, list):
        return text(value, field)
    parts: list[Any] = []
    for place, part in enumerate(value):
        where = f"{field}[{place}]"
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise BadRow("content part", where, part, "a string or an object with a type belongs there")
        elif part["type"] in TEXT_PARTS:
            parts.append({"type": "text", "text": text(part.get("text"), f"{where}.text")})
        else:
            parts.append({"type": part["type"]})
    return parts


def tool_calls(value: Any, field: str) -> list[dict[str, Any]]:
    """[{id, type, function: {name, arguments}}]; arguments stay the string or the object that they are."""
    if not isinstance(value, list):
        raise BadRow("tool call", field, value, "a list of calls belongs there")
    calls = []
    for place, call in enumerate(value):
        where = f"{field}[{place}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRow("tool call", where, call, "an object with function.name belongs there")
        arguments = function.get("arguments", "{}")
        if not isinstance(arguments, str | dict):
            raise BadRow("tool call", f"{where}.function.arguments", arguments, "a string or an object belongs there")
        made = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
        calls.append(({"id": call["id"]} if call.get("id") else {}) | made)
    return calls


def tools(value: Any, field: str) -> tuple[dict[str, Any], ...]:
    """Declarations of functions."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(_is_tool(one) for one in value):
        raise BadRow("tools", field, value, "a list of objects with function.name belongs there")
    return tuple(value)


def _is_tool(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    function = value.get("function", value)
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def split_reasoning(message: Message) -> Message:
    """An assistant's `<think>...</think>` in front of its content as reasoning_content."""
    said = message.get("content")
    if message.get(REASONING) or not isinstance(said, str) or not said.lstrip().startswith(THINK):
        return message
    thought, found, answer = said.lstrip().removeprefix(THINK).partition(THINK_END)
    if not found:
        return message
    return message | {REASONING: thought.strip("\n"), "content": answer.lstrip("\n")}
