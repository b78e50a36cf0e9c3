"""One answer, put together from the engine's documents as they pass. Pure."""

from dataclasses import dataclass, field
from typing import Any

from k25serve.server.gateway.arms.dialects import REASONING_NAMES

REASONING = "reasoning_content"
"""The name of the thoughts in the log, whatever the arm calls them and whatever clients get."""

Document = dict[str, Any]


@dataclass(slots=True)
class _Call:
    id: str | None = None
    name: str | None = None
    arguments: list[str] = field(default_factory=list)


class AnswerParts:
    """The only choice of an answer. A document of an unknown form spoils it: half an answer teaches wrongly."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._finished = False
        self._spoilt = False

    @property
    def size(self) -> int:
        """Characters, nearly."""
        arguments = sum(len(part) for call in self._calls.values() for part in call.arguments)
        return sum(map(len, self._content)) + sum(map(len, self._reasoning)) + arguments

    def frame(self, document: Document) -> None:
        """Takes one document of a stream. What follows the finish reason is nobody's; see dialect/rules.py."""
        choices = document.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if self._finished:
                return
            if not isinstance(choice, dict) or choice.get("index"):
                self._spoilt = True
                return
            if choice.get("delta") is not None:
                self._take(choice["delta"])
            self._finished = bool(choice.get("finish_reason"))

    def whole(self, document: Document) -> None:
        """Takes an answer that came without streaming."""
        choices = document.get("choices")
        one = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
        self._take(one.get("message") if isinstance(one, dict) else None)

    def spoil(self) -> None:
        """A part of the answer could not be read."""
        self._spoilt = True

    def message(self) -> Document | None:
        """The assistant's message as the engine gave it; None: spoilt."""
        calls = [self._calls[index] for index in sorted(self._calls)]
        if self._spoilt or not all(call.name for call in calls):
            return None
        message: Document = {"role": "assistant", "content": "".join(self._content) or None}
        if self._reasoning:
            message[REASONING] = "".join(self._reasoning)
        if calls:
            message["tool_calls"] = [
                {
                    **({"id": call.id} if call.id else {}),
                    "type": "function",
                    "function": {"name": call.name, "arguments": "".join(call.arguments)},
                }
                for call in calls
            ]
        return message

    def _take(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            self._spoilt = True
            return
        self._add(self._content, delta.get("content"))
        # Some servers send the thoughts under both names.
        self._add(self._reasoning, next((delta[name] for name in REASONING_NAMES if delta.get(name)), None))
        calls = delta.get("tool_calls")
        if calls:
            self._take_calls(calls)

    def _take_calls(self, calls: Any) -> None:
        for place, given in enumerate(calls if isinstance(calls, list) else (None,)):
            function = given.get("function") if isinstance(given, dict) else None
            if not isinstance(function, dict):
                self._spoilt = True
                return
            index = given.get("index")
            call = self._calls.setdefault(index if isinstance(index, int) else place, _Call())
            call.id = call.id or _text(given.get("id"))
            call.name = call.name or _text(function.get("name"))
            self._add(call.arguments, function.get("arguments"))

    def _add(self, parts: list[str], text: Any) -> None:
        if isinstance(text, str):
            if text:
                parts.append(text)
        elif text is not None:
            self._spoilt = True


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
