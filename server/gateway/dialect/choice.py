"""One choice of an answer: its thoughts' name, its tool calls, its end. Pure."""

from typing import Any, NamedTuple

from k25serve.server.gateway.dialect.markup import CallPart, MarkupParser, Piece, canonical_id
from k25serve.server.gateway.dialect.rules import AnswerRules

Delta = dict[str, Any]


class Deltas(NamedTuple):
    """What to send for one delta. `main` stands in its place: itself, the same object, if nothing is to be changed."""

    before: list[Delta]
    main: Delta
    after: list[Delta]


class ChoiceRewriter:
    """What has been seen of one choice so far."""

    def __init__(self, rules: AnswerRules) -> None:
        self._rules = rules
        self._parser: MarkupParser | None = None
        self._held_field = "content"
        self._engine_calls = 0
        self.finished = False
        self.repaired = False

    @property
    def called(self) -> bool:
        """A tool call was passed on."""
        return self.repaired or self._engine_calls > 0

    @property
    def alert(self) -> bool:
        """Every further frame has to be looked at."""
        return self.finished or (self._parser is not None and (self._parser.held or self._parser.found))

    def delta(self, delta: Delta) -> Deltas:
        """What to send in place of one delta."""
        if self._rules.old_reasoning in delta:
            delta = rename_reasoning(delta, self._rules)
        if delta.get("tool_calls"):
            last = max(call.get("index") or 0 for call in delta["tool_calls"])
            self._engine_calls = max(self._engine_calls, last + 1)
            delta = _canonical(delta)
        before: list[Delta] = []
        calls: list[CallPart] = []
        if self._rules.tools is not None:
            for field in (self._rules.new_reasoning, "content"):
                text = delta.get(field)
                if not isinstance(text, str) or not text or (self._parser is None and "<" not in text):
                    continue
                if self._parser is not None and self._held_field != field:
                    before += self.flushed()
                self._held_field = field
                piece = self._parse(text)
                calls += piece.calls
                if piece.text != text:
                    delta = {**delta, field: piece.text}
            if self.repaired and delta.get("content") == "":
                delta = {**delta, "content": None}
        return Deltas(before, delta, [{"tool_calls": [_streamed(part) for part in calls]}] if calls else [])

    def flushed(self) -> list[Delta]:
        """The text that was held back, as a delta of its own."""
        text = "" if self._parser is None else self._parser.flush()
        return [{self._held_field: text}] if text else []

    def finish(self, reason: str) -> str:
        """The finish reason to send."""
        self.finished = True
        return "tool_calls" if self.repaired and reason == "stop" else reason

    def _parse(self, text: str) -> Piece:
        if self._parser is None:
            self._parser = MarkupParser(self._rules.tools or (), self._engine_calls)
        piece = self._parser.feed(text)
        self.repaired = self.repaired or bool(piece.calls)
        return piece


def rewrite_message(message: dict[str, Any], reason: Any, rules: AnswerRules) -> tuple[dict[str, Any], Any]:
    """A whole answer's message and finish reason, changed as a stream's deltas are."""
    if rules.tools is None and rules.old_reasoning not in message and not message.get("tool_calls"):
        return message, reason
    rewriter = ChoiceRewriter(rules)
    before, whole, after = rewriter.delta(message)
    if isinstance(reason, str):
        reason = rewriter.finish(reason)
    for delta in (*before, *rewriter.flushed()):
        for field, text in delta.items():
            whole = {**whole, field: (whole.get(field) or "") + text}
    calls = [{key: part for key, part in call.items() if key != "index"} for d in after for call in d["tool_calls"]]
    if calls:
        calls = [*(whole.get("tool_calls") or ()), *calls]
        whole = {**whole, "tool_calls": calls, "content": whole.get("content") or None}
    return whole, reason


def rename_reasoning(delta: Delta, rules: AnswerRules) -> Delta:
    """`delta` with its thoughts under the new name, in the old one's place."""
    old, new = rules.old_reasoning, rules.new_reasoning
    if delta.get(new) is not None:
        return {key: value for key, value in delta.items() if key != old}
    return {new if key == old else key: value for key, value in delta.items() if key != new}


def _canonical(delta: Delta) -> Delta:
    calls = []
    for call in delta["tool_calls"]:
        given, name = call.get("id"), (call.get("function") or {}).get("name")
        if isinstance(given, str) and isinstance(name, str) and canonical_id(given, name) != given:
            call = call | {"id": canonical_id(given, name)}
        calls.append(call)
    return delta if calls == delta["tool_calls"] else {**delta, "tool_calls": calls}


def _streamed(part: CallPart) -> dict[str, Any]:
    if part.id is None:
        return {"index": part.index, "function": {"arguments": part.arguments}}
    function = {"name": part.name, "arguments": part.arguments}
    return {"index": part.index, "id": part.id, "type": "function", "function": function}
