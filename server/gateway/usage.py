"""Reads what the gateway measures out of one frame or one whole answer. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from k25serve.server.gateway.acceptance import SpecStats, spec_stats, vllm_spec_stats

_TOKEN_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the engine counted them."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one frame or answer says.

    `empty`: it has no data: a comment, say.
    `tokens`: it carries new text of the answer, its reasoning or its tool calls (a role alone doesn't count).
    `aborted`: the engine gave the request up; an error of another form.
    `finish`: why the engine ended a choice.
    `tail`: the parsed frame if its `choices` is empty. Only such frames are ever stripped; see strip.py.
    """

    empty: bool = False
    tokens: bool = False
    done: bool = False
    error: bool = False
    aborted: bool = False
    unreadable: bool = False
    finish: str | None = None
    usage: Usage | None = None
    spec: SpecStats | None = None
    spec_invalid: bool = False
    tail: dict[str, Any] | None = None


EMPTY = Reading(empty=True)
NOTHING = Reading()
TOKENS = Reading(tokens=True)
DONE = Reading(done=True)
ERROR = Reading(error=True)
ABORTED = Reading(error=True, aborted=True)
UNREADABLE = Reading(unreadable=True)


def read_frame(frame: bytes, seen: Callable[[dict[str, Any]], None] | None = None) -> Reading:
    """Reads one server-sent event of a stream. `seen` gets its document, unless that is an error."""
    data = frame_data(frame)
    if not data:
        return EMPTY
    if data == b"[DONE]":
        return DONE
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return UNREADABLE
    if not isinstance(document, dict):
        return UNREADABLE
    if document.get("error"):
        return ERROR
    if b'"abort"' in data and is_aborted(document):
        return ABORTED
    if seen is not None:
        seen(document)
    return _read(document, is_frame=True)


def is_aborted(document: dict[str, Any]) -> bool:
    """Whether the engine gave the request up, which it tells as a finish reason of its own."""
    choices = document.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") == "abort" for choice in choices
    )


def read_answer(document: dict[str, Any]) -> Reading:
    """Reads a whole answer, as it comes without streaming."""
    return _read(document, is_frame=False)


def _read(document: dict[str, Any], *, is_frame: bool) -> Reading:
    choices = document.get("choices")
    tokens, finish = False, None
    if isinstance(choices, list):
        tokens = any(_has_tokens(choice) for choice in choices)
        finish = _finish(choices)
    usage = document.get("usage")
    details, metrics = document.get("sglext"), document.get("metrics")
    tail = document if is_frame and choices == [] else None
    if usage is None and details is None and metrics is None and tail is None and finish is None:
        return TOKENS if tokens else NOTHING
    spec, invalid = None, False
    try:
        if isinstance(details, dict) and details.get("spec_tokens_details") is not None:
            spec = spec_stats(details["spec_tokens_details"])
        elif isinstance(metrics, dict) and metrics.get("speculative_decoding") is not None:
            spec = vllm_spec_stats(metrics["speculative_decoding"])
    except ValueError:
        invalid = True
    return Reading(
        tokens=tokens,
        finish=finish,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        spec=spec,
        spec_invalid=invalid,
        tail=tail,
    )


def _has_tokens(choice: object) -> bool:
    if not isinstance(choice, dict):
        return False
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(delta.get(field) for field in _TOKEN_FIELDS)


def _finish(choices: list[Any]) -> str | None:
    for choice in choices:
        if isinstance(choice, dict):
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                return reason
    return None


def _usage(usage: dict[str, Any]) -> Usage:
    prompt_details = usage.get("prompt_tokens_details")
    completion_details = usage.get("completion_tokens_details")
    reasoning = _count(completion_details, "reasoning_tokens") if completion_details else 0
    return Usage(
        prompt=_count(usage, "prompt_tokens"),
        cached=_count(prompt_details, "cached_tokens"),
        completion=_count(usage, "completion_tokens"),
        # SGLang had only the flat field before it took over OpenAI's place for it.
        reasoning=reasoning or _count(usage, "reasoning_tokens"),
    )


def _count(mapping: object, key: str) -> int:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def frame_data(frame: bytes) -> bytes:
    """The frame's data, its `data:` lines joined as the standard says."""
    body = frame.strip(b"\r\n")
    if body.startswith(b"data:") and b"\n" not in body:
        return body[5:].strip()
    lines = (line.rstrip(b"\r") for line in body.split(b"\n"))
    return b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
