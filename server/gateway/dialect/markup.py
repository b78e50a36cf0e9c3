"""Kimi's own text form of tool calls, read piece by piece. Pure.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:N<|tool_call_argument_begin|>{...}<|tool_call_end|>
    ... <|tool_calls_section_end|>

The form is documented with Kimi-K2-Instruct (docs/tool_call_guidance.md). Under speculation one step may hold several
of these markers, and any step may end inside one.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

_SECTION_BEGIN = "<|tool_calls_section_begin|>"
_SECTION_END = "<|tool_calls_section_end|>"
_CALL_BEGIN = "<|tool_call_begin|>"
_CALL_END = "<|tool_call_end|>"
_ARGUMENTS = "<|tool_call_argument_begin|>"
_ID = re.compile(r"(?:functions[._])?(?P<name>[\w.-]+?)[:_](?P<number>[0-9]+)")


@dataclass(slots=True)
class CallPart:
    """New arguments of call `index`; its first part also has its id and name."""

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(slots=True)
class Piece:
    """What one piece of text gave: text before any call, and parts of calls."""

    text: str = ""
    calls: list[CallPart] = field(default_factory=list)


class MarkupParser:
    """Takes a choice's text apart. However the text is cut, the joined result is the same.

    Text goes out at once but for an end that may be the start of a marker. After the first call nothing else is text:
    between calls the model writes none, and clients take content after a call for a new answer.

    `tools`: the names that the request declares. `first`: index of the first call.
    """

    def __init__(self, tools: Collection[str], first: int = 0) -> None:
        self._tools = tools
        self._next = first
        self._held = ""
        self._state: Literal["text", "section", "header", "arguments"] = "text"

    @property
    def found(self) -> bool:
        """A marker was seen."""
        return self._state != "text"

    @property
    def held(self) -> bool:
        """Text waits, since it may be the start of a marker."""
        return self._state == "text" and bool(self._held)

    def feed(self, text: str) -> Piece:
        piece = Piece()
        self._held += text
        while self._step(piece):
            pass
        return piece

    def flush(self) -> str:
        """The text that waited, at the end of the choice."""
        if self._state != "text":
            return ""
        text, self._held = self._held, ""
        return text

    def _step(self, piece: Piece) -> bool:
        """Takes one stretch off the held text; False if more text is needed."""
        if self._state == "text":
            before, marker = self._until(_SECTION_BEGIN, _CALL_BEGIN)
            piece.text += before
            if marker:
                self._state = "header" if marker == _CALL_BEGIN else "section"
        elif self._state == "section":
            _, marker = self._until(_CALL_BEGIN)
            if marker:
                self._state = "header"
        elif self._state == "header":
            at = self._held.find(_ARGUMENTS)
            if at < 0:
                return False
            call_id, name = self._name(self._held[:at].rpartition(_CALL_BEGIN)[2].strip())
            self._held = self._held[at + len(_ARGUMENTS) :]
            piece.calls.append(CallPart(self._next, id=call_id, name=name))
            self._next += 1
            self._state = "arguments"
            return True
        else:
            arguments, marker = self._until(_CALL_END, _SECTION_END, _CALL_BEGIN)
            self._add(piece, arguments)
            if marker:
                self._state = "header" if marker == _CALL_BEGIN else "section"
        return bool(marker)

    def _until(self, *markers: str) -> tuple[str, str]:
        """The held text up to the first of `markers`, and that marker; "" if none is there yet."""
        found = [(at, marker) for marker in markers if (at := self._held.find(marker)) >= 0]
        if found:
            at, marker = min(found)
            before, self._held = self._held[:at], self._held[at + len(marker) :]
            return before, marker
        at = _open_marker(self._held, markers)
        before, self._held = self._held[:at], self._held[at:]
        return before, ""

    def _add(self, piece: Piece, arguments: str) -> None:
        if not arguments:
            return
        index = self._next - 1
        if piece.calls and piece.calls[-1].index == index:
            piece.calls[-1].arguments += arguments
        else:
            piece.calls.append(CallPart(index, arguments))

    def _name(self, header: str) -> tuple[str, str]:
        """The call's canonical id and its function's name, also from ids that a client squeezed."""
        match = _ID.fullmatch(header)
        if match is not None:
            return f"functions.{match['name']}:{match['number']}", match["name"]
        name = header.removeprefix("functions.")
        if name not in self._tools and len(self._tools) == 1:
            (name,) = self._tools
        number = header if header.isdecimal() else self._next
        return f"functions.{name}:{number}", name


def _open_marker(text: str, markers: tuple[str, ...]) -> int:
    """Where an end of `text` begins that may grow into one of `markers`; len(text) if none does."""
    longest = max(map(len, markers)) - 1
    at = text.find("<", max(0, len(text) - longest))
    while at >= 0:
        if any(marker.startswith(text[at:]) for marker in markers):
            return at
        at = text.find("<", at + 1)
    return len(text)


def canonical_id(given: str, name: str) -> str:
    """`functions_NAME_N` of a call to NAME as `functions.NAME:N`; anything else as it is."""
    prefix = "functions_" + re.sub(r"[^A-Za-z0-9_-]", "_", name) + "_"
    number = given.removeprefix(prefix)
    return f"functions.{name}:{number}" if given.startswith(prefix) and number.isdecimal() else given
