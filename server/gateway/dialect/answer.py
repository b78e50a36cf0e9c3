"""An answer on its way to the client, with the table of rules.py applied. Pure."""

from typing import Any

import orjson

from k25serve.server.gateway.dialect.choice import ChoiceRewriter, rewrite_message
from k25serve.server.gateway.dialect.rules import AnswerRules
from k25serve.server.gateway.errors import AbortedError
from k25serve.server.gateway.usage import Reading, frame_data

_ENVELOPE = ("id", "object", "created", "model", "system_fingerprint")

Document = dict[str, Any]


class StreamRewriter:
    """Takes a stream's frames one after the other. One without a trigger comes back as the same bytes."""

    def __init__(self, rules: AnswerRules) -> None:
        self._rules = rules
        self._words = rules.words
        self._old = b'"%s":' % (rules.old_reasoning or "").encode()
        self._new = b'"%s":' % rules.new_reasoning.encode()
        self._choices: dict[int, ChoiceRewriter] = {}
        self._alert = False
        self._envelope: Document = {}
        self._usage: Any = None
        self._usage_sent = False

    @property
    def alert(self) -> bool:
        """Frames are looked at even without a trigger, since what an earlier one began is open."""
        return self._alert

    def frame(self, raw: bytes, reading: Reading) -> bytes:
        """What to send in place of the frame `raw`: itself, other frames, or nothing."""
        if reading.done:
            return self._closing() + raw
        if self._rules.old_reasoning is not None and self._old in raw:
            # No string can hold these bytes: a quote inside one is written with a backslash before it.
            if self._new not in raw:
                raw = raw.replace(self._old, self._new)
            else:
                return self._document(raw)
        if not self._alert:
            for word in self._words:
                if word in raw:
                    break
            else:
                return raw
        return self._document(raw)

    def flush(self) -> bytes:
        """Text that was held back, for a stream that breaks off."""
        return b"".join(
            _framed(self._chunk(index, delta)) for index, one in self._choices.items() for delta in one.flushed()
        )

    def _document(self, raw: bytes) -> bytes:
        try:
            document = orjson.loads(frame_data(raw))
        except orjson.JSONDecodeError:
            return raw
        if not isinstance(document, dict) or not isinstance(document.get("choices"), list):
            return raw
        self._envelope = self._envelope or {key: document[key] for key in _ENVELOPE if key in document}
        owed = self._finish_all() if document["choices"] == [] and document.get("usage") is not None else b""
        rewritten = self._place_usage(document)
        frames = [] if rewritten is None else self._rewrite(rewritten)
        self._alert = any(one.alert for one in self._choices.values())
        if len(frames) == 1 and frames[0] is document:
            return owed + raw
        return owed + b"".join(map(_framed, frames))

    def _place_usage(self, document: Document) -> Document | None:
        """The frame with its usage where it belongs; None: nothing is left to send."""
        usage = document.get("usage")
        if usage is None or self._rules.continuous_usage:
            return document
        ended = any(one.finished for one in self._choices.values())
        if document["choices"] and not (ended and all(map(_is_placeholder, document["choices"]))):
            self._usage = usage
            return {key: value for key, value in document.items() if key != "usage"}
        if self._usage_sent or not self._rules.wants_usage:
            return None
        self._usage_sent = True
        return {**document, "choices": []} if document["choices"] else document

    def _rewrite(self, document: Document) -> list[Document]:
        """The frames to send for this one; the same object alone if nothing changed."""
        before: list[Document] = []
        kept: list[Any] = []
        after: list[Document] = []
        for choice in document["choices"]:
            if not isinstance(choice, dict):
                kept.append(choice)
                continue
            index = choice.get("index") or 0
            one = self._choices.setdefault(index, ChoiceRewriter(self._rules))
            reason = choice.get("finish_reason")
            if one.finished:
                continue
            if reason == "abort":
                return [orjson.loads(AbortedError().body())]
            changed, later = choice, []
            if isinstance(choice.get("delta"), dict):
                deltas = one.delta(choice["delta"])
                before += [self._chunk(index, delta) for delta in deltas.before]
                later = deltas.after
                if deltas.main is not choice["delta"]:
                    changed = {**choice, "delta": deltas.main}
            if reason:
                later = [*later, *one.flushed()]
                final = one.finish(reason)
                if final != reason or later:
                    changed = {**changed, "finish_reason": None if later else final}
            after += [self._chunk(index, delta) for delta in later]
            if reason and later:
                after.append(self._chunk(index, {}, final))
            if changed is choice or not _is_placeholder(changed):
                kept.append(changed)
        if list(map(id, kept)) == list(map(id, document["choices"])):
            return [*before, document, *after]
        return [*before, *([{**document, "choices": kept}] if kept else []), *after]

    def _closing(self) -> bytes:
        """What is still owed before [DONE]."""
        out = self.flush() + self._finish_all()
        if self._usage is not None and self._rules.wants_usage and not self._usage_sent:
            self._usage_sent = True
            out += _framed({**self._envelope, "choices": [], "usage": self._usage})
        return out

    def _finish_all(self) -> bytes:
        out = b""
        for index in range(self._rules.choices):
            one = self._choices.get(index)
            if self._envelope and (one is None or not one.finished):
                one = self._choices.setdefault(index, ChoiceRewriter(self._rules))
                out += _framed(self._chunk(index, {}, one.finish("tool_calls" if one.called else "stop")))
        return out

    def _chunk(self, index: int, delta: Document, reason: str | None = None) -> Document:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**self._envelope, "choices": [choice]}


def rewrite_answer(raw: bytes, document: Document, rules: AnswerRules) -> bytes:
    """A whole answer. `document` is what it said before anything was stripped from it.

    Raises:
        AbortedError: the engine gave the request up.
    """
    choices = document.get("choices")
    if not isinstance(choices, list):
        return raw
    changed = []
    for choice in choices:
        if not isinstance(choice, dict):
            return raw
        if choice.get("finish_reason") == "abort":
            raise AbortedError
        message = choice.get("message")
        if isinstance(message, dict):
            after, reason = rewrite_message(message, choice.get("finish_reason"), rules)
            if after is not message or reason != choice.get("finish_reason"):
                choice = {**choice, "message": after, "finish_reason": reason}
        changed.append(choice)
    if list(map(id, changed)) == list(map(id, choices)):
        return raw
    return orjson.dumps({**orjson.loads(raw), "choices": changed})


def _is_placeholder(choice: Any) -> bool:
    """A choice that says nothing, but for a role."""
    if not isinstance(choice, dict) or choice.get("finish_reason") or choice.get("text"):
        return False
    delta = choice.get("delta")
    return not isinstance(delta, dict) or not any(value for key, value in delta.items() if key != "role")


def _framed(document: Document) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"
