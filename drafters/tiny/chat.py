"""The chat record that all the chat makers return."""

from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
Tool = dict[str, Any]


@dataclass(frozen=True)
class Chat:
    """One conversation in OpenAI's message format, ending with the assistant.

    kind: `code`, `explain`, `arguments`, `module`, `talk`, `sum`, `tool` or `image`; only for statistics.
    """

    kind: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The messages before the last assistant turn."""
        return self.messages[:-1]

    @property
    def thinking(self) -> bool:
        """Whether the last turn was written with a reasoning part."""
        return bool(self.messages[-1].get("reasoning_content"))


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def system(content: str) -> Message:
    return {"role": "system", "content": content}


def assistant(content: str, reasoning: str = "") -> Message:
    return {"role": "assistant", "content": content, "reasoning_content": reasoning}


def join(first: Chat, second: Chat) -> Chat:
    """Two conversations as one of more turns; the tools of both are declared. Only for chats without tool calls."""
    return Chat(second.kind, first.messages + second.messages, first.tools + second.tools)
