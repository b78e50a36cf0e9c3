"""Tool calls that the engine left in the text. Cases A01, A02, A03."""

import json

import pytest

from k25serve.server.gateway.arms.dialects import WORDS
from k25serve.server.gateway.dialect.answer import StreamRewriter, rewrite_answer
from k25serve.server.gateway.dialect.rules import answer_rules
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.usage import read_frame

SETTINGS = GatewaySettings(upstream="http://127.0.0.1:1", served_model_name="kimi")
SECTION, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"


def call(header, arguments):
    return f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def parsed(call_id, name):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def tools(*names):
    return [{"type": "function", "function": {"name": name}} for name in names]


TWO = SECTION + call("functions.get_weather:0", '{"city":"Paris"}') + call("functions.get-time:1", '{"tz":"CET"}') + END
CASE_A01 = (TWO[: TWO.index('is"}')], TWO[TWO.index('is"}') : TWO.index(END)], END)
BODY = {"messages": [{"role": "user", "content": "x"}], "tools": tools("get_weather", "get-time", "read_file")}


def streamed(pieces, field="content", finish="stop", body=BODY, dialect="sglang"):
    """The client's view of a stream whose deltas carry `pieces`: joined fields, calls, finish, and the raw deltas."""
    rules = answer_rules({"stream_options": {"include_usage": True}} | body, WORDS[dialect], SETTINGS)
    rewriter = StreamRewriter(rules)
    deltas = [({"role": "assistant", "content": ""}, None), *(({field: piece}, None) for piece in pieces), ({}, finish)]
    out = b""
    for delta, reason in deltas:
        chunk = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        raw = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        out += rewriter.frame(raw, read_frame(raw))
    done = b"data: [DONE]\n\n"
    out += rewriter.frame(done, read_frame(done))
    frames = [json.loads(frame[6:]) for frame in out.split(b"\n\n")[:-2]]
    return Answer([frame["choices"][0] for frame in frames])


class Answer:
    def __init__(self, choices):
        self.deltas = [choice["delta"] for choice in choices]
        self.finishes = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
        self.content = "".join(delta.get("content") or "" for delta in self.deltas)
        self.thoughts = "".join(delta.get("reasoning_content") or "" for delta in self.deltas)
        self.calls = {}
        for part in (part for delta in self.deltas for part in delta.get("tool_calls") or ()):
            one = self.calls.setdefault(part["index"], {"id": None, "name": None, "arguments": ""})
            if part.get("id"):
                assert one["id"] is None
                one["id"], one["name"] = part["id"], part["function"]["name"]
            one["arguments"] += part["function"]["arguments"]


def whole(message, reason="stop", body=BODY):
    document = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    raw = json.dumps(document).encode()
    choice = json.loads(rewrite_answer(raw, document, answer_rules(body, WORDS["sglang"], SETTINGS)))["choices"][0]
    return choice["message"], choice["finish_reason"]


A01_CALLS = {
    0: {"id": "functions.get_weather:0", "name": "get_weather", "arguments": '{"city":"Paris"}'},
    1: {"id": "functions.get-time:1", "name": "get-time", "arguments": '{"tz":"CET"}'},
}


def is_a01(answer):
    assert answer.calls == A01_CALLS
    assert answer.finishes == ["tool_calls"]
    assert "<" not in answer.content + answer.thoughts
    first = next(i for i, delta in enumerate(answer.deltas) if delta.get("tool_calls"))
    assert all(delta.get("content") is None for delta in answer.deltas[first:])


def test_a01_the_cases_own_deltas():
    is_a01(streamed(CASE_A01))


def test_a01_every_split_and_every_character():
    for at in range(len(TWO) + 1):
        is_a01(streamed([TWO[:at], TWO[at:]]))
    for size in (1, 2, 3, 7, 40):
        is_a01(streamed([TWO[i : i + size] for i in range(0, len(TWO), size)]))


def test_a01_the_whole_answer_agrees():
    message, reason = whole({"role": "assistant", "content": TWO, "reasoning_content": None})
    assert reason == "tool_calls"
    assert message["content"] is None
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]] == [
        (c["id"], c["name"], c["arguments"]) for c in A01_CALLS.values()
    ]


def test_a01_text_before_the_call_stays_text():
    answer = streamed(["Let me see. 1 <", " 2. ", *CASE_A01])
    assert answer.content == "Let me see. 1 < 2. "
    assert answer.calls == A01_CALLS


def test_a01_a_call_that_the_token_limit_cut_is_told_as_such():
    answer = streamed([TWO[:130]], finish="length")
    assert answer.finishes == ["length"]
    assert answer.calls[0]["id"] == "functions.get_weather:0"
    assert A01_CALLS[0]["arguments"].startswith(answer.calls[0]["arguments"])


def test_a01_calls_are_numbered_after_the_engines_own():
    rewriter = StreamRewriter(answer_rules(BODY, WORDS["sglang"], SETTINGS))
    out = b""
    for delta in ({"tool_calls": [parsed("functions.read_file:0", "read_file") | {"index": 0}]}, {"content": TWO}):
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        raw = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        out += rewriter.frame(raw, read_frame(raw))
    frames = [json.loads(frame[6:])["choices"][0]["delta"] for frame in out.split(b"\n\n")[:-1]]
    assert [part["index"] for delta in frames for part in delta.get("tool_calls") or ()] == [0, 1, 2]


@pytest.mark.parametrize("header", ["functions_read_file_1", "functions.read_file:1", "read_file:1"])
def test_a02_a_squeezed_id_becomes_canonical(header):
    answer = streamed([SECTION, call(header, '{"path":"a"}'), END])
    assert answer.calls == {0: {"id": "functions.read_file:1", "name": "read_file", "arguments": '{"path":"a"}'}}


def test_a02_a_squeezed_id_that_the_engine_parsed():
    part = {
        "index": 0,
        "id": "functions_get-time_3",
        "type": "function",
        "function": {"name": "get-time", "arguments": "{}"},
    }
    message, _ = whole({"role": "assistant", "content": None, "tool_calls": [part]}, "tool_calls")
    assert message["tool_calls"][0]["id"] == "functions.get-time:3"


@pytest.mark.parametrize(
    ("header", "names", "wanted"),
    [
        ("3", ("search",), ("functions.search:3", "search")),
        ("search", ("search", "other"), ("functions.search:0", "search")),
    ],
)
def test_a02_never_raw_markup(header, names, wanted):
    body = BODY | {"tools": tools(*names)}
    answer = streamed([SECTION + call(header, "{}") + END], body=body)
    assert (answer.calls[0]["id"], answer.calls[0]["name"]) == wanted
    assert "<|" not in answer.content


async def test_a02_history_pairs_in_the_engines_form(gateway):
    given = parsed("functions_read_file_0", "read_file")
    messages = [
        {"role": "user", "content": "read a"},
        {"role": "assistant", "content": None, "tool_calls": [given]},
        {"role": "tool", "tool_call_id": "functions_read_file_0", "content": "text"},
    ]
    text = SECTION + call("functions_read_file_1", '{"path":"a"}') + END
    sim = {"pieces": [text], "accepted": []}
    async with gateway.post(False, messages=messages, tools=tools("read_file"), sim=sim) as response:
        assert response.status == 200
        message = (await response.json())["choices"][0]["message"]
    sent = gateway.engine.record.calls[-1].body["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == "functions.read_file:0"
    assert message["tool_calls"][0]["id"] == "functions.read_file:1"
    assert message["content"] is None


A03 = "Need the weather." + SECTION + call("functions.get_weather:0", '{"city":"Rome"}') + END


def test_a03_a_call_inside_the_thoughts_is_a_call():
    wanted = {0: {"id": "functions.get_weather:0", "name": "get_weather", "arguments": '{"city":"Rome"}'}}
    for at in range(len(A03) + 1):
        answer = streamed([A03[:at], A03[at:]], field="reasoning_content")
        assert (answer.thoughts, answer.content, answer.calls) == ("Need the weather.", "", wanted)
        assert answer.finishes == ["tool_calls"]


async def test_a03_stream_and_whole_agree(either, events):
    sim = {"pieces": [A03], "accepted": [], "reasoning_steps": 1}
    async with either.post(False, sim=sim, tools=tools("get_weather")) as response:
        choice = (await response.json())["choices"][0]
    message = choice["message"]
    assert message["reasoning_content"] == "Need the weather."
    assert not message["content"]
    assert [c["function"]["arguments"] for c in message["tool_calls"]] == ['{"city":"Rome"}']
    assert choice["finish_reason"] == "tool_calls"
    async with either.post(sim=sim | {"write_bytes": 5}, tools=tools("get_weather")) as response:
        documents = [event for event in events(await response.read()) if event != "[DONE]"]
    answer = Answer([document["choices"][0] for document in documents])
    assert answer.thoughts == "Need the weather."
    assert answer.calls[0]["arguments"] == '{"city":"Rome"}'
    assert answer.finishes == ["tool_calls"]


def test_without_tools_nothing_is_looked_at():
    body = {"messages": BODY["messages"]}
    assert streamed([TWO], body=body).content == TWO
    assert streamed([TWO], body=BODY | {"tool_choice": "none"}).content == TWO
    message = {"role": "assistant", "content": TWO}
    assert whole(message, body=body) == (message, "stop")


@pytest.mark.parametrize("text", ["a < b", "<", "<|tool", "x <|im_end|> y", "1 << 2 <| 3"])
def test_text_that_only_looks_like_a_marker_passes(text):
    for at in range(len(text) + 1):
        answer = streamed([text[:at], text[at:]])
        assert answer.content == text
        assert answer.finishes == ["stop"]
