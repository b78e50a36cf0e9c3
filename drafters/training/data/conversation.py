"""One conversation in OpenAI's message format, whatever it came from."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
Tool = dict[str, Any]

REASONING = "reasoning_content"
WEIGHT = "weight"
"""0 at an assistant's message that is not supervised; not for the chat template."""


@dataclass(frozen=True)
class Conversation:
    """messages hold only what a chat template reads: role, content, reasoning_content, tool_calls, tool_call_id, name;
    and WEIGHT.

    label: its class, empty where the source names none; source: the data set it once came from, if that is known.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    label: str = ""
    source: str = ""

    @property
    def id(self) -> str:
        """16 hex digits of the SHA-256 of what is said: white space, key order and call ids don't count."""
        said = [[_plain(message), _calls(message)] for message in self.messages]
        return _digest([said, list(self.tools)])[:16]

    @property
    def opening(self) -> str:
        """16 hex digits of what the user says before the first answer. Conversations that share it stay together."""
        said = []
        for message in self.messages:
            if message["role"] == "assistant":
                break
            if message["role"] == "user":
                said.append(_squeezed(message.get("content")))
        return _digest(said)[:16]

    @property
    def has_media(self) -> bool:
        """Whether a message holds something else than text."""
        return any(
            not isinstance(part, str) and part["type"] != "text"
            for message in self.messages
            for part in (message["content"] if isinstance(message.get("content"), list) else ())
        )

    def as_json(self) -> dict[str, Any]:
        return {"messages": self.messages, "tools": self.tools, "label": self.label, "source": self.source}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Conversation":
        return cls(tuple(value["messages"]), tuple(value["tools"]), value["label"], value["source"])


def text_of(content: Any) -> str:
    """The text of a message's content, parts joined."""
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)
    return str(content or "")


def wrote_something(message: Message) -> bool:
    """Whether an assistant's message holds content, reasoning or a call."""
    return bool(text_of(message.get("content")) or message.get(REASONING) or message.get("tool_calls"))


def _plain(message: Message) -> list[str]:
    return [message["role"], _squeezed(message.get("content")), _squeezed(message.get(REASONING))]


def _squeezed(content: Any) -> str:
    return " ".join(text_of(content).split())


def _calls(message: Message) -> list[Any]:
    return [[call["function"]["name"], _arguments(call["function"]["arguments"])] for call in _listed(message)]


def _listed(message: Message) -> list[Any]:
    return message.get("tool_calls") or []


def _arguments(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
