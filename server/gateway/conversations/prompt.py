"""A request's messages as the log has them. Pure."""

from typing import Any

from k25serve.server.gateway.conversations.answer import REASONING
from k25serve.server.gateway.dialect.messages import canonical_ids, flatten_text, merge_developer, name_reasoning

Message = dict[str, Any]

_TEXTS = ("name", REASONING, "tool_call_id")


def is_recordable(body: dict[str, Any]) -> bool:
    """Whether a checked body is a chat in text that asks for a turn of its own.

    An answer to an assistant's message would be the rest of that message, and `function` is a role that no template
    has any more.
    """
    messages = body.get("messages")
    return (
        isinstance(messages, list)
        and messages[-1]["role"] != "assistant"
        and all(message["role"] != "function" and _is_text(message.get("content")) for message in messages)
    )


def told_messages(messages: list[Message]) -> list[Message] | None:
    """What the chat template reads of a recordable body's messages; None: one has a form that is not known."""
    given = canonical_ids(name_reasoning(flatten_text(merge_developer(messages)), REASONING))
    told = [_told(message) for message in given]
    return None if None in told else [message for message in told if message is not None]


def _told(message: Message) -> Message | None:
    told: Message = {"role": message["role"], "content": message.get("content")}
    for key in _TEXTS:
        value = message.get(key)
        if isinstance(value, str):
            told[key] = value
        elif value is not None:
            return None
    if message.get("function_call"):
        return None
    if message.get("tool_calls"):
        told["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    if message["role"] == "assistant":
        told["weight"] = 0
    return told


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    made = {
        "type": "function",
        "function": {"name": function["name"], "arguments": "{}" if arguments is None else arguments},
    }
    return {"id": call["id"], **made} if isinstance(call.get("id"), str) else made


def _is_text(content: Any) -> bool:
    return not isinstance(content, list) or all(part["type"] == "text" for part in content)
