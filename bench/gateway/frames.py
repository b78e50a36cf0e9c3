"""The paced engine's answers, in SGLang's form (protocol.py, 0.5.23). Pure."""

import re

import orjson

STAMP = re.compile(rb"@t=(\d{20})")
"""When a frame was written: CLOCK_MONOTONIC, nanoseconds."""
_CHUNK_BYTES = 325
"""A real chunk of SGLang's has about this size, framing included."""
_ID = "0123456789abcdef0123456789abcdef"
_USAGE = {"prompt_tokens": 256, "total_tokens": 456, "completion_tokens": 200, "reasoning_tokens": 0}
_SPEC = {
    "spec_accept_rate": 0.5,
    "spec_accept_length": 2.0,
    "spec_num_correct_drafts": 50,
    "spec_num_proposed_drafts": 150,
    "spec_verify_ct": 50,
    "spec_correct_drafts_histogram": [20, 15, 10, 5],
}
_DONE = b"data: [DONE]\n\n"


def chunk_template() -> tuple[bytes, bytes]:
    """What comes before and after the stamp's digits in one content frame."""
    frame = _frame([_choice({"reasoning_content": None, "content": "@t=" + "0" * 20 + " "})])
    words = b"of a kernel is one step over eight lanes and back the graph " * 4
    before, after = frame.split(b"0" * 20)
    return before, b" " + words[: _CHUNK_BYTES - len(frame)] + after[1:]


def tail(*, usage: bool, spec: bool) -> bytes:
    """The closing frames, sent in one write: the reason, then what was asked for, then [DONE]."""
    frames = [_frame([_choice({"reasoning_content": None}, "stop")])]
    if spec:
        frames.append(_frame([], {"usage": None, "sglext": {"spec_tokens_details": _SPEC}}))
    if usage:
        frames.append(_frame([], {"usage": _USAGE}))
    return b"".join([*frames, _DONE])


def whole(size: int, *, spec: bool) -> bytes:
    """An answer without streaming whose text has `size` bytes."""
    text = ("the graph of a kernel is one step over " * (size // 39 + 1))[:size]
    message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "matched_stop": 163586}
    document = _envelope("chat.completion") | {"choices": [choice], "usage": _USAGE}
    return orjson.dumps(document | {"sglext": {"spec_tokens_details": _SPEC}} if spec else document)


def error(status: int) -> bytes:
    """SGLang's error body."""
    text = {"object": "error", "message": "The request queue is full.", "type": "SERVICE_UNAVAILABLE", "param": None}
    return orjson.dumps(text | {"code": status})


def _envelope(kind: str) -> dict[str, object]:
    return {"id": _ID, "object": kind, "created": 1_700_000_000, "model": "bench"}


def _frame(choices: list[object], more: dict[str, object] | None = None) -> bytes:
    document = _envelope("chat.completion.chunk") | {"choices": choices} | (more or {})
    return b"data: " + orjson.dumps(document) + b"\n\n"


def _choice(delta: dict[str, object], finish_reason: str | None = None) -> object:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason, "matched_stop": None}
