"""The literals were compared, byte for byte, with what SGLang 0.5.23's own classes serialise: `build_sse_content`,
`ChatCompletionStreamResponse`, `CompletionStreamResponse` and `ChatCompletionResponse`."""

import dataclasses
import random

import orjson
import pytest

from k25serve.bench.engine_sim.draw import draw_answer
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings, ToolCall
from k25serve.bench.engine_sim.sglang import Asked, stream_frames, whole_answer

OPTIONS = SimOptions(accepted=(3, 0, 2), pieces=("修", "b"), reasoning_steps=1)
CHAT = Asked("r1", "sim", chat=True, n=1, include_usage=True, continuous_usage=False, spec_details=True, created=5)
HEAD = '{"id":"r1","object":"chat.completion.chunk","created":5,"model":"sim","choices":'
SPEC = (
    '{"spec_tokens_details":{"spec_accept_rate":0.5555555555555556,"spec_accept_length":3.0,"spec_cap_length":0.0,'
    '"spec_block_accept_length":0.0,"spec_num_correct_drafts":5,"spec_num_proposed_drafts":9,"spec_verify_ct":3,'
    '"spec_correct_drafts_histogram":[1,0,1,1],"spec_cap_lens_histogram":[]}}'
)


def frames(asked=CHAT, options=OPTIONS):
    answer = draw_answer(SimSettings(), options, 7, 100, random.Random(0))
    return [frame.data.decode() for frame in stream_frames(asked, answer, options)]


def choice(delta, finish="null"):
    return f'[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish},"matched_stop":null}}]'


def test_chat_stream_is_sglangs_byte_for_byte():
    assert frames() == [
        HEAD + choice('{"reasoning_content":null,"role":"assistant","content":""}') + "}",
        HEAD + choice('{"reasoning_content":"修"}') + "}",
        HEAD + choice('{"reasoning_content":null,"content":"b"}') + "}",
        HEAD + choice('{"reasoning_content":null,"content":"修"}') + "}",
        HEAD + choice('{"reasoning_content":null,"content":"b"}') + "}",
        HEAD + choice('{"reasoning_content":null}', '"stop"') + "}",
        HEAD + '[],"usage":null,"sglext":' + SPEC + "}",
        HEAD + '[],"usage":{"prompt_tokens":7,"total_tokens":16,"completion_tokens":9,"prompt_tokens_details":null,'
        '"reasoning_tokens":1,"completion_tokens_details":{"reasoning_tokens":1}}}',
        "[DONE]",
    ]


def test_tool_calls_are_streamed_in_pieces():
    options = OPTIONS.model_copy(update={"tool_calls": (ToolCall(name="f", arguments=('{"a":', "1}")),)})
    calls = [orjson.loads(frame) for frame in frames(options=options) if "tool_calls" in frame and "function" in frame]
    deltas = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in calls]
    assert [delta["id"] for delta in deltas] == ["functions.f:0", None, None]
    assert "".join(delta["function"]["arguments"] for delta in deltas) == '{"a":1}'
    assert '"finish_reason":"tool_calls"' in frames(options=options)[-4]


def test_what_was_not_asked_for_is_not_sent():
    quiet = frames(dataclasses.replace(CHAT, include_usage=False, spec_details=False))
    assert not any("sglext" in frame or '"usage":{' in frame for frame in quiet)


def test_continuous_usage_counts_up():
    counts = [
        orjson.loads(frame)["usage"]["completion_tokens"]
        for frame in frames(dataclasses.replace(CHAT, continuous_usage=True))
        if '"usage":{' in frame
    ]
    assert counts == [1, 5, 6, 9, 9]


def test_completion_stream_is_sglangs_byte_for_byte():
    head = '{"id":"r1","object":"text_completion","created":5,"model":"sim","choices":'

    def text(piece, finish="null"):
        return f'[{{"index":0,"text":"{piece}","logprobs":null,"finish_reason":{finish},"matched_stop":null}}]'

    assert frames(dataclasses.replace(CHAT, chat=False)) == [
        head + text("修") + ',"usage":null}',
        head + text("b") + ',"usage":null}',
        head + text("修") + ',"usage":null}',
        head + text("b", '"stop"') + ',"usage":null}',
        head + '[],"usage":null,"sglext":' + SPEC + "}",
        head + '[],"usage":{"prompt_tokens":7,"total_tokens":16,"completion_tokens":9,"reasoning_tokens":0}}',
        "[DONE]",
    ]


@pytest.mark.parametrize("n", [1, 2])
def test_whole_answer_agrees_with_the_stream(n):
    asked = dataclasses.replace(CHAT, n=n)
    answer = draw_answer(SimSettings(), OPTIONS, 7, 100, random.Random(0))
    whole = orjson.loads(whole_answer(asked, answer, OPTIONS))
    assert [choice["message"]["content"] for choice in whole["choices"]] == ["b修b"] * n
    assert whole["choices"][0]["message"]["reasoning_content"] == "修"
    assert whole["usage"]["completion_tokens"] == 9 * n
    details = whole["sglext"]["spec_tokens_details"]
    assert (details if n == 1 else details[1])["spec_verify_ct"] == 3
