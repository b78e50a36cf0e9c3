"""Bytes as engines send them -> records."""

import orjson
import pytest
from load_records.make import CELL, asked

from k25serve.bench.load import metrics
from k25serve.bench.load.answer import read_text, to_record
from k25serve.bench.load.client import Reply


def frame(*deltas: dict, reason: str | None = None, **more: object) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": reason} for delta in deltas]
    return b"data: " + orjson.dumps({"object": "chat.completion.chunk", "choices": choices, **more}) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def reply(*reads: tuple[float, bytes], status: int = 200) -> Reply:
    sent = 50.0
    last = reads[-1][0] if reads else 0.0
    return Reply(sent, 1e9, status, [(sent + at, data) for at, data in reads], sent + last, 1e9 + last)


def test_reasoning_counts_and_a_role_does_not() -> None:
    """D01: a reply that thinks before it answers."""
    reads = [(0.2, frame({"role": "assistant", "content": ""}))]
    reads += [(1.0 + 0.1 * i, frame({"reasoning_content": "hm"})) for i in range(40)]
    reads += [(5.1, frame({"content": "4"})), (5.2, frame({}, reason="stop"))]
    reads += [(5.2, frame(usage={"prompt_tokens": 9, "completion_tokens": 42}) + DONE)]
    record = to_record(reply(*reads), asked(), CELL, 0.0)
    assert metrics.ttft(record) == pytest.approx(1.0)
    assert metrics.first_answer(record) == pytest.approx(5.1)
    assert record.tokens is not None
    assert record.tokens.completion == 42
    assert record.error == ""
    assert record.finish_reason == "stop"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_reply_that_ends_inside_its_reasoning(field: str) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 2}}
    reads = [(1.0, frame({field: "a"})), (1.5, frame({field: "b"}, reason="length")), (1.5, frame(usage=usage) + DONE)]
    record = to_record(reply(*reads), asked(), CELL, 0.0)
    assert metrics.ttft(record) == pytest.approx(1.0)
    assert metrics.first_answer(record) is None
    assert metrics.tpot(record) == pytest.approx(0.5)
    assert record.tokens is not None
    assert record.tokens.reasoning == 2


def test_an_event_is_there_when_its_last_byte_is() -> None:
    whole = frame({"content": "a"})
    record = to_record(reply((0.1, whole[:20]), (0.7, whole[20:] + whole), (0.9, DONE)), asked(), CELL, 0.0)
    assert record.chunk_s == pytest.approx((0.7, 0.7, 0.9))
    assert record.chunk_kinds == "aad"


def test_speculation_of_both_dialects() -> None:
    sglang = {"spec_verify_ct": 10, "spec_num_proposed_drafts": 30, "spec_num_correct_drafts": 20}
    vllm = {"num_spec_steps": 10, "num_draft_tokens": 30, "num_accepted_draft_tokens": 20}
    for tail in (frame(sglext={"spec_tokens_details": sglang}), frame(metrics={"speculative_decoding": vllm})):
        record = to_record(reply((0.1, frame({"content": "a"})), (0.2, tail + DONE)), asked(), CELL, 0.0)
        assert metrics.accept_length(record) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("reads", "error"),
    [
        ([(0.1, frame({"content": "a"}))], "the stream ended without"),
        ([(0.1, b'data: {"error": {"message": "out of memory"}}\n\n' + DONE)], "out of memory"),
        ([(0.1, frame({"content": "a"}, reason="abort") + DONE)], "abort"),
        ([(0.1, b"data: {broken\n\n" + DONE)], "broken"),
        ([], "the stream ended without"),
    ],
)
def test_what_is_no_whole_answer_is_an_error(reads: list, error: str) -> None:
    assert error in to_record(reply(*reads), asked(), CELL, 0.0).error


def test_text_tool_calls_and_gaps() -> None:
    def logprobs(token: str, *top: float) -> dict:
        return {"content": [{"token": token, "top_logprobs": [{"logprob": value} for value in top]}]}

    first = {"index": 0, "delta": {"reasoning": "so"}, "logprobs": logprobs("so", -0.1, -2.1)}
    second = {"index": 0, "delta": {"content": "4"}, "logprobs": logprobs("4", -0.2)}
    calls = [
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    data = b"".join(b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n" for choice in (first, second))
    answer = read_text(reply((0.1, data + b"".join(map(frame, calls)) + frame({}, reason="tool_calls") + DONE)))
    assert (answer.reasoning, answer.text, answer.tool_calls) == ("so", "4", [("f", '{"a": 1}')])
    assert answer.pieces == ["so", "4"]
    assert answer.gaps == pytest.approx([2.0, float("inf")])
    assert answer.finish_reason == "tool_calls"
