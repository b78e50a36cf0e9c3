"""Checks a chat request's messages. Pure."""

from typing import Any

from k25serve.server.gateway.fields import missing, shown, wrong

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NEED_CONTENT = ("system", "developer", "user")

PARTS = {
    "text": "text",
    "image_url": "image_url",
    "video_url": "video_url",
    "audio_url": "audio_url",
    "input_audio": "input_audio",
    "thinking": None,
    "reasoning": None,
    "tool_reference": None,
}
"""Content parts that SGLang reads (`ChatCompletionMessageContentPart` in its protocol.py, 0.5.23), each with the field
that it can't do without."""


def check_messages(body: dict[str, Any]) -> None:
    """Raises InvalidRequestError for the first message that the engine could not render."""
    messages = body.get("messages")
    if messages is None:
        raise missing("messages", "a list of messages, not empty")
    if not isinstance(messages, list) or not messages:
        raise wrong("messages", messages, "a list of messages, not empty")
    for i, message in enumerate(messages):
        _check_message(message, f"messages[{i}]")


def _check_message(message: Any, at: str) -> None:
    if not isinstance(message, dict):
        raise wrong(at, message, "an object with role and content")
    role = message.get("role")
    if role is None:
        raise missing(f"{at}.role", f"one of: {', '.join(ROLES)}")
    if role not in ROLES:
        raise wrong(f"{at}.role", role, f"one of: {', '.join(ROLES)}")
    content = message.get("content")
    if isinstance(content, list):
        if not content and role == "user":
            raise wrong(f"{at}.content", content, "at least one content part, or a string")
        for j, part in enumerate(content):
            _check_part(part, role, f"{at}.content[{j}]")
    elif content is None:
        # OpenAI's own clients send null, or nothing, for an assistant's turn that only called tools.
        if role in _NEED_CONTENT:
            wanted = "a string or a list of content parts"
            raise wrong(f"{at}.content", None, wanted) if "content" in message else missing(f"{at}.content", wanted)
    elif not isinstance(content, str):
        raise wrong(f"{at}.content", content, "a string or a list of content parts")
    _check_tool_calls(message.get("tool_calls"), f"{at}.tool_calls")
    if not isinstance(message.get("tool_call_id"), str | None):
        raise wrong(f"{at}.tool_call_id", message["tool_call_id"], "the id of the tool call that this answers")


def _check_part(part: Any, role: str, at: str) -> None:
    if not isinstance(part, dict):
        raise wrong(at, part, 'an object such as {"type": "text", "text": ...}')
    kind = part.get("type")
    if kind is None:
        raise missing(f"{at}.type", f"one of: {', '.join(PARTS)}")
    if not isinstance(kind, str) or kind not in PARTS:
        raise wrong(f"{at}.type", kind, f"one of: {', '.join(PARTS)}")
    if kind in ("thinking", "reasoning") and role != "assistant":
        raise wrong(f"{at}.type", kind, f"it in an assistant message only; this one's role is {shown(role)}")
    field = PARTS[kind]
    if field is None:
        return
    value = part.get(field)
    if value is None:
        raise missing(f"{at}.{field}", f"the content of this {kind} part")
    if kind == "text":
        if not isinstance(value, str):
            raise wrong(f"{at}.text", value, "a string")
    elif not isinstance(value, dict):
        raise wrong(f"{at}.{field}", value, 'an object such as {"url": ...}')
    elif kind != "input_audio" and not isinstance(value.get("url"), str):
        raise missing(f"{at}.{field}.url", "a URL or a data URI")


def _check_tool_calls(calls: Any, at: str) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise wrong(at, calls, "a list of tool calls")
    for i, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise wrong(f"{at}[{i}]", call, 'an object such as {"id": ..., "type": "function", "function": {...}}')
        if not isinstance(function.get("name"), str):
            raise missing(f"{at}[{i}].function.name", "the function's name")
        if not isinstance(function.get("arguments"), str | dict | None):
            raise wrong(f"{at}[{i}].function.arguments", function["arguments"], "the arguments as a JSON string")
