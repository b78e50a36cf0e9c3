"""Answers in the words of SGLang 0.5.23 (entrypoints/openai: sse_utils.py, protocol.py, serving_chat.py,
serving_completions.py). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from k25serve.bench.engine_sim.draw import Answer
from k25serve.bench.engine_sim.settings import SimOptions


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request decides the answer's form."""

    rid: str
    model: str
    chat: bool
    n: int
    include_usage: bool
    continuous_usage: bool
    spec_details: bool
    created: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event and the time, in seconds, that passes before it is sent."""

    data: bytes
    seconds: float = 0.0


DONE = Frame(b"[DONE]")


def stream_frames(asked: Asked, answer: Answer, options: SimOptions) -> Iterator[Frame]:
    """The stream's frames without their framing, [DONE] last."""
    yield from _chat_frames(asked, answer, options) if asked.chat else _completion_frames(asked, answer)
    details = _spec_details(asked, answer)
    if details is not None:
        yield _frame(_chunk(asked, []) | {"usage": None, "sglext": {"spec_tokens_details": details}})
    if asked.include_usage:
        usage = _usage(asked, answer, options)
        if not asked.chat:
            usage = {key: value for key, value in usage.items() if value is not None}
        yield _frame(_chunk(asked, []) | {"usage": usage})
    yield DONE


def whole_answer(asked: Asked, answer: Answer, options: SimOptions) -> bytes:
    """The answer without streaming."""
    document: dict[str, Any] = {
        "id": asked.rid,
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": asked.created,
        "model": asked.model,
        "choices": [_whole_choice(asked, answer, options, index) for index in range(asked.n)],
        "usage": _usage(asked, answer, options),
        "metadata": {"weight_version": "default"},
    }
    details = _spec_details(asked, answer)
    if details is not None:
        document["sglext"] = {"spec_tokens_details": details}
    return orjson.dumps(document)


def error_body(message: str, kind: str, status: int) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}


def _chat_frames(asked: Asked, answer: Answer, options: SimOptions) -> Iterator[Frame]:
    for i, step in enumerate(answer.steps):
        for index in range(asked.n):
            seconds = step.seconds if index == 0 else 0.0
            if i == 0:
                delta = {"reasoning_content": None, "role": "assistant", "content": ""}
                yield _frame(_chunk(asked, [_chat_choice(index, delta)]), seconds)
                seconds = 0.0
            if i < options.reasoning_steps:
                delta = {"reasoning_content": step.text}
            else:
                delta = {"reasoning_content": None, "content": step.text}
            chunk = _chunk(asked, [_chat_choice(index, delta)])
            if asked.continuous_usage:
                chunk["usage"] = _usage(asked, answer, options, sum(s.tokens for s in answer.steps[: i + 1]))
            yield _frame(chunk, seconds)
    for index in range(asked.n):
        yield from _tool_call_frames(asked, options, index)
    for index in range(asked.n):
        choice = _chat_choice(index, {"reasoning_content": None}, finish_reason(answer, options))
        yield _frame(_chunk(asked, [choice]))


def _tool_call_frames(asked: Asked, options: SimOptions, index: int) -> Iterator[Frame]:
    for number, call in enumerate(options.tool_calls):
        for i, piece in enumerate(("", *call.arguments)):
            entry = {
                "id": None if i else f"functions.{call.name}:{number}",
                "index": number,
                "type": "function",
                "function": {"name": None if i else call.name, "arguments": piece},
            }
            delta = {"role": None, "content": None, "reasoning_content": None, "tool_calls": [entry]}
            yield _frame(_chunk(asked, [_chat_choice(index, delta)]) | {"usage": None})


def _completion_frames(asked: Asked, answer: Answer) -> Iterator[Frame]:
    for i, step in enumerate(answer.steps):
        for index in range(asked.n):
            choice = {
                "index": index,
                "text": step.text,
                "logprobs": None,
                "finish_reason": answer.finish_reason if i == len(answer.steps) - 1 else None,
                "matched_stop": None,
            }
            yield _frame(_chunk(asked, [choice]) | {"usage": None}, step.seconds if index == 0 else 0.0)


def _frame(document: dict[str, Any], seconds: float = 0.0) -> Frame:
    return Frame(orjson.dumps(document), seconds)


def _chunk(asked: Asked, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": asked.rid,
        "object": "chat.completion.chunk" if asked.chat else "text_completion",
        "created": asked.created,
        "model": asked.model,
        "choices": choices,
    }


def _chat_choice(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {
        "index": index,
        "delta": delta,
        "logprobs": None,
        "finish_reason": reason,
        "matched_stop": None,
    }


def _whole_choice(asked: Asked, answer: Answer, options: SimOptions, index: int) -> dict[str, Any]:
    thought_steps = options.reasoning_steps if asked.chat else 0
    reasoning = "".join(step.text for step in answer.steps[:thought_steps])
    text = "".join(step.text for step in answer.steps[thought_steps:])
    choice: dict[str, Any] = {"index": index}
    if asked.chat:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or None,
            "reasoning_content": reasoning or None,
        }
        if options.tool_calls:
            message["tool_calls"] = [
                {
                    "id": f"functions.{call.name}:{number}",
                    "index": None,
                    "type": "function",
                    "function": {"name": call.name, "arguments": "".join(call.arguments)},
                }
                for number, call in enumerate(options.tool_calls)
            ]
        choice["message"] = message
        reason = finish_reason(answer, options)
    else:
        choice["text"] = text
        reason = answer.finish_reason
    return choice | {"logprobs": None, "finish_reason": reason, "matched_stop": None}


def finish_reason(answer: Answer, options: SimOptions) -> str:
    """How a chat's choice ends."""
    if options.fault == "abort":
        return "abort"
    return "tool_calls" if options.tool_calls and answer.finish_reason == "stop" else answer.finish_reason


def _usage(asked: Asked, answer: Answer, options: SimOptions, completion: int | None = None) -> dict[str, Any]:
    completion = (answer.completion_tokens if completion is None else completion) * asked.n
    reasoning = sum(step.tokens for step in answer.steps[: options.reasoning_steps]) * asked.n if asked.chat else 0
    return {
        "prompt_tokens": answer.prompt_tokens,
        "total_tokens": answer.prompt_tokens + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None if options.cached_tokens is None else {"cached_tokens": options.cached_tokens},
        "reasoning_tokens": reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
    }


def _spec_details(asked: Asked, answer: Answer) -> dict[str, Any] | list[dict[str, Any]] | None:
    """SGLang's own two ratios: the length is completion tokens / steps, so it counts the prefill's token."""
    steps = len(answer.accepted)
    if not asked.spec_details or not steps:
        return None
    correct = sum(answer.accepted)
    proposed = steps * answer.num_draft_tokens
    details = {
        "spec_accept_rate": correct / proposed,
        "spec_accept_length": answer.completion_tokens / steps,
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": steps,
        "spec_correct_drafts_histogram": answer.histogram,
        "spec_cap_lens_histogram": [],
    }
    return [details] * asked.n if asked.n > 1 else details
