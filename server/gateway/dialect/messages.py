"""A conversation as the arm's chat template can read it. Pure; each function gives the messages back untouched, the
same object, where it has nothing to do."""

import re
from collections.abc import Callable
from typing import Any

from k25serve.server.gateway.arms.dialects import REASONING_NAMES

Messages = list[dict[str, Any]]


def are_plain(messages: Messages) -> bool:
    """Whether each has a role, text and nothing else, so that no function here has anything to do."""
    for message in messages:
        if len(message) != 2 or message["role"] == "developer" or not isinstance(message.get("content"), str):
            return False
    return True


def merge_developer(messages: Messages) -> Messages:
    """Role developer becomes system; those at the start become one system message, in their order.

    K2.5's chat template knows no developer: the instruction would vanish.
    """
    if not any(message["role"] == "developer" for message in messages):
        return messages
    lead = 0
    while lead < len(messages) and messages[lead]["role"] in ("system", "developer"):
        lead += 1
    rest = [message | {"role": "system"} if message["role"] == "developer" else message for message in messages[lead:]]
    if not lead:
        return rest
    first = {**messages[0], "role": "system"}
    if lead > 1:
        first["content"] = _joined([message["content"] for message in messages[:lead]])
    return [first, *rest]


def flatten_text(messages: Messages) -> Messages:
    """A list of text parts only becomes their text: templates that know strings only drop lists, or put spaces in."""
    return _each(messages, _flat)


def name_reasoning(messages: Messages, name: str | None) -> Messages:
    """History's thoughts under the name that the arm reads; None: as they came."""
    if name is None:
        return messages
    other = next(alias for alias in REASONING_NAMES if alias != name)

    def renamed(message: dict[str, Any]) -> dict[str, Any]:
        if message["role"] != "assistant" or other not in message:
            return message
        rest = {key: value for key, value in message.items() if key != other}
        if rest.get(name) is None:
            rest[name] = message[other]
        return rest

    return _each(messages, renamed)


def canonical_ids(messages: Messages) -> Messages:
    """Tool-call ids that a client squeezed into [A-Za-z0-9_-] get Kimi's own form back, `functions.NAME:N`.

    Kimi copies the ids that it sees, and no parser takes the squeezed form. An id is changed only if it is
    `functions_NAME_N` with the name of its own call; the tool message that answers it is changed alike.
    """
    ids: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            name, given = call["function"]["name"], call.get("id")
            match = re.fullmatch(rf"functions_{re.escape(_squeezed(name))}_([0-9]+)", str(given))
            if match is not None:
                ids[str(given)] = f"functions.{name}:{match[1]}"
    if not ids:
        return messages

    def renamed(message: dict[str, Any]) -> dict[str, Any]:
        if message.get("tool_calls"):
            calls = [call | {"id": ids.get(str(call.get("id")), call.get("id"))} for call in message["tool_calls"]]
            return message | {"tool_calls": calls}
        if message.get("tool_call_id") in ids:
            return message | {"tool_call_id": ids[message["tool_call_id"]]}
        return message

    return _each(messages, renamed)


def _each(messages: Messages, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Messages:
    changed = [change(message) for message in messages]
    return messages if list(map(id, changed)) == list(map(id, messages)) else changed


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list) or not content or any(part["type"] != "text" for part in content):
        return message
    return message | {"content": "".join(part["text"] for part in content)}


def _joined(contents: list[Any]) -> Any:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(contents)
    parts: list[Any] = []
    for content in contents:
        if parts:
            parts.append({"type": "text", "text": "\n\n"})
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts


def _squeezed(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
