"""Answers in the words of vLLM's chat and completion servers: thoughts under `reasoning`, acceptance under
`metrics.speculative_decoding` on the usage chunk (--per-request-spec-decode-metrics summary, as of 0.32). Pure.

The shapes follow vLLM's documents, not a byte comparison with a running server.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from k25serve.bench.engine_sim.draw import Answer
from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.engine_sim.sglang import DONE, Asked, Frame, finish_reason


def stream_frames(asked: Asked, answer: Answer, options: SimOptions) -> Iterator[Frame]:
    """The stream's frames without their framing, [DONE] last."""
    yield from _chat_frames(asked, answer, options) if asked.chat else _completion_frames(asked, answer, options)
    if asked.include_usage:
        yield _frame(_chunk(asked, []) | {"usage": _usage(asked, answer, options)} | _metrics(asked, answer))
    yield DONE


def whole_answer(asked: Asked, answer: Answer, options: SimOptions) -> bytes:
    """The answer without streaming."""
    document: dict[str, Any] = {
        "id": _id(asked),
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": asked.created,
        "model": asked.model,
        "choices": [_whole_choice(asked, answer, options, index) for index in range(asked.n)],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": _usage(asked, answer, options),
    }
    return orjson.dumps(document | _metrics(asked, answer))


def error_body(message: str, kind: str, status: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _chat_frames(asked: Asked, answer: Answer, options: SimOptions) -> Iterator[Frame]:
    for index in range(asked.n):
        yield _frame(_chunk(asked, [_choice(index, {"role": "assistant", "content": ""})]))
    for i, step in enumerate(answer.steps):
        for index in range(asked.n):
            field = "reasoning" if i < options.reasoning_steps else "content"
            yield _frame(_chunk(asked, [_choice(index, {field: step.text})]), step.seconds if index == 0 else 0.0)
    for index in range(asked.n):
        for number, call in enumerate(options.tool_calls):
            for i, piece in enumerate(("", *call.arguments)):
                function = {"arguments": piece} if i else {"name": call.name, "arguments": piece}
                entry: dict[str, Any] = {"index": number, "function": function}
                if not i:
                    entry |= {"id": f"functions.{call.name}:{number}", "type": "function"}
                yield _frame(_chunk(asked, [_choice(index, {"tool_calls": [entry]})]))
    for index in range(asked.n):
        yield _frame(_chunk(asked, [_choice(index, {"content": ""}, finish_reason(answer, options))]))


def _completion_frames(asked: Asked, answer: Answer, options: SimOptions) -> Iterator[Frame]:
    for i, step in enumerate(answer.steps):
        for index in range(asked.n):
            last = i == len(answer.steps) - 1
            reason = finish_reason(answer, options) if last else None
            choice = {"index": index, "text": step.text, "logprobs": None, "finish_reason": reason, "stop_reason": None}
            yield _frame(_chunk(asked, [choice]), step.seconds if index == 0 else 0.0)


def _whole_choice(asked: Asked, answer: Answer, options: SimOptions, index: int) -> dict[str, Any]:
    thought_steps = options.reasoning_steps if asked.chat else 0
    thoughts = "".join(step.text for step in answer.steps[:thought_steps])
    text = "".join(step.text for step in answer.steps[thought_steps:])
    choice: dict[str, Any] = {"index": index}
    if asked.chat:
        calls = [
            {
                "id": f"functions.{call.name}:{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": "".join(call.arguments)},
            }
            for number, call in enumerate(options.tool_calls)
        ]
        choice["message"] = {
            "role": "assistant",
            "content": text or None,
            "reasoning": thoughts or None,
            "tool_calls": calls,
        }
    else:
        choice["text"] = text
    return choice | {"logprobs": None, "finish_reason": finish_reason(answer, options), "stop_reason": None}


def _chunk(asked: Asked, choices: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "chat.completion.chunk" if asked.chat else "text_completion"
    return {"id": _id(asked), "object": kind, "created": asked.created, "model": asked.model, "choices": choices}


def _choice(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _usage(asked: Asked, answer: Answer, options: SimOptions) -> dict[str, Any]:
    completion = answer.completion_tokens * asked.n
    cached = options.cached_tokens
    return {
        "prompt_tokens": answer.prompt_tokens,
        "total_tokens": answer.prompt_tokens + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
    }


def _metrics(asked: Asked, answer: Answer) -> dict[str, Any]:
    """vLLM reports acceptance for one choice only."""
    steps = len(answer.accepted)
    if not steps or asked.n > 1:
        return {}
    accepted, proposed = sum(answer.accepted), steps * answer.num_draft_tokens
    details = {
        "mean_acceptance_length": 1 + accepted / steps,
        "draft_acceptance_rate": accepted / proposed,
        "acceptance_histogram": answer.histogram,
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": proposed,
        "num_spec_tokens": answer.num_draft_tokens,
    }
    return {"metrics": {"speculative_decoding": details}}


def _frame(document: dict[str, Any], seconds: float = 0.0) -> Frame:
    return Frame(orjson.dumps(document), seconds)


def _id(asked: Asked) -> str:
    return f"{'chatcmpl' if asked.chat else 'cmpl'}-{asked.rid}"
