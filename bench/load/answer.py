"""A reply's bytes -> its events, its record, its text. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from k25serve.bench.load.client import SHOWN, Reply
from k25serve.bench.load.record import Asked, Cell, RequestRecord, Speculation, Tokens
from k25serve.server.gateway.sse import FrameSplitter
from k25serve.server.gateway.usage import frame_data, read_frame

DIGITS = 6  # of a second kept


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event, `at` on perf_counter. `document` is None for [DONE] and for what is no JSON object."""

    at: float
    frame: bytes
    document: dict[str, Any] | None


@dataclass(slots=True)
class Answer:
    """What a streamed answer says in all. `pieces`: its tokens, and `gaps`: log-probability between the top two at each
    of them (nat); both empty where the engine gave no logprobs. tool_calls: name and arguments' text, in order.
    """

    reasoning: str = ""
    text: str = ""
    tool_calls: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    finish_reason: str | None = None


def events(reply: Reply) -> Iterator[Event]:
    """The events of a stream, each at the time of the read that completed it; comments are left out."""
    splitter = FrameSplitter()
    at = reply.sent
    for at, data in reply.reads:
        for frame in splitter.feed(data):
            if event := _event(at, frame):
                yield event
    if splitter.open and (event := _event(at, splitter.held)):
        yield event


def to_record(reply: Reply, asked: Asked, cell: Cell, zero: float) -> RequestRecord:
    """The record of one streamed request. zero: the run's start on perf_counter."""
    times, kinds = [], ""
    error, finish, done = reply.error, None, False
    tokens: Tokens | None = None
    speculation: Speculation | None = None
    for event in () if reply.status != 200 else events(reply):
        times.append(round(event.at - reply.sent, DIGITS))
        kind, reason = _kind(event)
        kinds += kind
        finish = reason or finish
        done = done or kind == "d"
        reading = read_frame(event.frame)
        if kind == "e" or reading.error:
            error = error or f"the stream says {frame_data(event.frame).decode(errors='replace')[:SHOWN]}"
        if reading.spec is not None:
            spec = reading.spec
            speculation = Speculation(
                steps=spec.steps, proposed=spec.proposed, accepted=spec.accepted, histogram=spec.histogram
            )
        if event.document is not None and isinstance(event.document.get("usage"), dict):
            tokens = _tokens(event.document["usage"])
    if not error and not done:
        error = "the stream ended without [DONE]"
    return RequestRecord(
        cell=cell,
        asked=asked,
        sent_s=round(reply.sent - zero, DIGITS),
        ended_s=round(reply.ended - reply.sent, DIGITS),
        wall_sent=round(reply.wall_sent, DIGITS),
        wall_ended=round(reply.wall_ended, DIGITS),
        chunk_s=tuple(times),
        chunk_kinds=kinds,
        status=reply.status,
        error=error,
        finish_reason=finish,
        tokens=tokens,
        speculation=speculation,
    )


def read_text(reply: Reply) -> Answer:
    """The whole text of a streamed answer of one choice."""
    answer, calls = Answer(), dict[int, list[str]]()
    for event in events(reply):
        choice = _choice(event.document)
        if choice is None:
            continue
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        delta = _delta(choice)
        answer.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
        answer.text += delta.get("content") or ""
        for part in delta.get("tool_calls") or ():
            function = part.get("function") or {}
            call = calls.setdefault(part.get("index") or 0, ["", ""])
            call[0] += function.get("name") or ""
            call[1] += function.get("arguments") or ""
        for one in (choice.get("logprobs") or {}).get("content") or ():
            top = sorted((alternative["logprob"] for alternative in one.get("top_logprobs") or ()), reverse=True)
            answer.pieces.append(one["token"])
            answer.gaps.append(top[0] - top[1] if len(top) > 1 else float("inf"))
    answer.tool_calls = [(name, arguments) for _, (name, arguments) in sorted(calls.items())]
    return answer


def _event(at: float, frame: bytes) -> Event | None:
    data = frame_data(frame)
    if not data:
        return None
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = None
    return Event(at, frame, document if isinstance(document, dict) else None)


def _kind(event: Event) -> tuple[str, str | None]:
    """The event's letter (record.py) and its finish reason."""
    document = event.document
    if document is None:
        return ("d" if frame_data(event.frame) == b"[DONE]" else "e"), None
    if document.get("error"):
        return "e", None
    choice = _choice(document)
    if choice is None:
        return "u", None
    delta, reason = _delta(choice), choice.get("finish_reason")
    for letter, fields in (("t", ("tool_calls",)), ("a", ("content",)), ("r", ("reasoning_content", "reasoning"))):
        if any(delta.get(name) for name in fields):
            return letter, reason
    return "o", reason


def _choice(document: dict[str, Any] | None) -> dict[str, Any] | None:
    choices = document.get("choices") if document else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _delta(choice: dict[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {}


def _tokens(usage: dict[str, Any]) -> Tokens:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or usage.get("reasoning_tokens")
    return Tokens(
        prompt=usage.get("prompt_tokens") or 0,
        completion=usage.get("completion_tokens") or 0,
        cached=cached,
        reasoning=thought or 0,
    )
