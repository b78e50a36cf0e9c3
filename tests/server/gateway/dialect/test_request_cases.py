"""What an arm is sent for a client's request. Cases A06, A07, A08, A13, A14 and the fields that reach into engines."""

import jsonschema
import pytest

from k25serve.bench.engine_sim.probes import schema_faults, stop_faults, stopped_output
from k25serve.server.gateway.arms.dialects import WORDS
from k25serve.server.gateway.dialect.refused import REFUSED
from k25serve.server.gateway.dialect.request import REQUEST_REWRITES, rewritten_fields
from k25serve.server.gateway.dialect.rules import ANSWER_REWRITES
from k25serve.server.gateway.settings import GatewaySettings, SamplingDefaults, ThinkingSettings

USER = {"role": "user", "content": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def text(value):
    return {"type": "text", "text": value}


async def sent(gateway, wanted=200, **fields):
    """The body that the engine got; with another status, the error."""
    async with gateway.post(False, **fields) as response:
        document = await response.json()
        assert response.status == wanted, document
    return gateway.engine.record.calls[-1].body if wanted == 200 else document["error"]


async def test_a06_text_parts_are_the_same_as_a_string(either):
    plain = await sent(either, messages=[{"role": "user", "content": "Hello there"}])
    parts = await sent(either, messages=[{"role": "user", "content": [text("Hello"), text(" there")]}])
    assert parts["messages"] == plain["messages"]


async def test_a06_mixed_parts_keep_their_order(either):
    mixed = [{"role": "user", "content": [text("a"), IMAGE, text("b")]}]
    assert (await sent(either, messages=mixed))["messages"] == mixed
    error = await sent(either, 400, messages=[USER, {"role": "user", "content": [text("a"), {"type": "hologram"}]}])
    assert error["param"] == "messages[1].content[1].type"


CALL = {
    "id": "functions.get_weather:0",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"location":"Paris"}'},
}


@pytest.mark.parametrize("content", [{"content": None}, {}])
async def test_a07_an_assistant_that_only_called_tools(either, content):
    history = [
        USER,
        {"role": "assistant", **content, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": CALL["id"], "content": "Sunny"},
    ]
    assert (await sent(either, messages=history))["messages"] == history
    error = await sent(either, 400, messages=[{"role": "user", "content": None}])
    assert error["param"] == "messages[0].content"


A08 = {
    "alone": ([("developer", "B")], [("system", "B")]),
    "after system": ([("system", "A"), ("developer", "B")], [("system", "A\n\nB")]),
    "several": ([("developer", "A"), ("system", "B"), ("developer", "C")], [("system", "A\n\nB\n\nC")]),
    "parts": ([("system", "A"), ("developer", [text("B"), text("C")])], [("system", "A\n\nBC")]),
    "with an image": (
        [("system", "A"), ("developer", [IMAGE])],
        [("system", [text("A"), text("\n\n"), IMAGE])],
    ),
    "systems alone": ([("system", "A"), ("system", "B")], [("system", "A"), ("system", "B")]),
}


@pytest.mark.parametrize("case", A08)
async def test_a08_a_developer_is_a_system(either, case):
    given, wanted = ([{"role": role, "content": content} for role, content in part] for part in A08[case])
    assert (await sent(either, messages=[*given, USER]))["messages"] == [*wanted, USER]


async def test_a08_later_in_a_conversation_too(either):
    later = {"role": "developer", "content": "B"}
    assert (await sent(either, messages=[USER, later, USER]))["messages"] == [USER, later | {"role": "system"}, USER]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("limits", [{"max_completion_tokens": 5}, {"max_tokens": 50, "max_completion_tokens": 5}])
async def test_a13_max_completion_tokens_wins(either, path, limits):
    async with either.post(False, path, prompt="x", **limits) as response:
        document = await response.json()
    assert document["usage"]["completion_tokens"] <= 5
    assert document["choices"][0]["finish_reason"] == "length"
    body = either.engine.record.calls[-1].body
    assert body["max_completion_tokens"] == 5
    assert path.startswith("/v1/chat") or body["max_tokens"] == 5


async def test_a13_none_is_refused(either):
    assert (await sent(either, 400, max_completion_tokens=0))["param"] == "max_completion_tokens"


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a14_schema_and_thinking_reach_the_engine(either, events, stream, thinking):
    sim = {"pieces": ["thought", '{"name":', '"Mars"}'] if thinking else ['{"name":', '"Mars"}']}
    sim |= {"accepted": [0] * (len(sim["pieces"]) - 1), "reasoning_steps": int(thinking)}
    fields = {"chat_template_kwargs": {"thinking": thinking}, "response_format": FORMAT}
    async with either.post(stream, sim=sim, **fields) as response:
        if stream:
            message = {}
            for delta in (one["delta"] for d in events(await response.read())[:-1] for one in d["choices"]):
                for name in ("content", "reasoning_content"):
                    message[name] = (message.get(name) or "") + (delta.get(name) or "")
        else:
            message = (await response.json())["choices"][0]["message"]
    body = either.engine.record.calls[-1].body
    assert {name: body[name] for name in fields} == fields
    assert schema_faults(message, jsonschema.Draft202012Validator(SCHEMA).is_valid, thinking=thinking) == []


def test_a14_the_probe_fails_what_it_has_to():
    valid = jsonschema.Draft202012Validator(SCHEMA).is_valid
    assert schema_faults({"content": None, "reasoning_content": '{"name":"x"}'}, valid, thinking=False)
    assert schema_faults({"content": '{"nam":"x"}'}, valid, thinking=True) == ["content does not fit the schema"]
    assert schema_faults({"content": "Mars"}, valid, thinking=True)
    assert schema_faults({"content": '{"name":"x"}', "reasoning": "r"}, valid, thinking=False)


STOP = 99


@pytest.mark.parametrize(
    ("ids", "limit", "wanted"),
    [
        ([10, 11, STOP, 20, 21, 22], 5, ([10, 11], "stop")),
        ([STOP, 20, 21, 22], 3, ([], "stop")),
        ([10, 11, 12, STOP], 4, ([10, 11, 12], "stop")),
        ([10, 11, 12, 13, STOP], 4, ([10, 11, 12, 13], "length")),
    ],
)
def test_a11_a_stop_inside_the_limit_wins(ids, limit, wanted):
    assert stopped_output(ids, STOP, limit) == wanted


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        (("a b ", "stop", 3), True),
        (("a b c", "length", 5), True),
        (("a ### b", "length", 5), False),
        (("a ###", "stop", 3), False),
        (("a b", "length", 3), False),
        (("a b c d", "stop", 6), False),
        (("a", None, 1), False),
    ],
)
def test_a11_the_probe(reply, right):
    assert (stop_faults(*reply, stop="###", max_tokens=5) == []) is right


async def test_a_field_that_reaches_into_the_engine_is_refused(gateway):
    for field in REFUSED:
        error = await sent(gateway, 400, **{field: "x"})
        assert (error["param"], error["code"]) == (field, "unsupported_parameter")
        assert "leave it out" in error["message"]
    assert not gateway.engine.record.calls


async def test_absent_in_all_but_name_or_allowed_it_passes(open_gateway):
    async with open_gateway(allowed_engine_fields=("stop_regex",)) as gateway:
        fields = {
            "return_hidden_states": False,
            "lora_path": None,
            "stop_regex": "a+",
            "priority": 3,
            "unknown": {"a": 1},
        }
        body = await sent(gateway, **fields)
    assert {name: body[name] for name in fields} == fields


def test_the_tables_name_every_rewrite_once():
    for table in (REQUEST_REWRITES, ANSWER_REWRITES):
        assert len({row.name for row in table}) == len(table)
        assert all(row.trigger and row.effect and row.case for row in table)


HISTORIES = {
    "plain": [{"role": "system", "content": "a"}, USER, {"role": "assistant", "content": "b"}, USER],
    "developer": [{"role": "developer", "content": "a"}, USER],
    "parts": [{"role": "user", "content": [text("a")]}],
    "thoughts": [USER, {"role": "assistant", "content": "b", "reasoning": "c"}],
    "ids": [USER, {"role": "assistant", "tool_calls": [CALL | {"id": "functions_get_weather_0"}]}],
}
MODES = {
    "says nothing": ({}, ThinkingSettings()),
    "asks for thinking": ({"thinking": {"type": "disabled"}}, ThinkingSettings()),
    "a default": ({}, ThinkingSettings(default=False)),
    "sampling": ({}, ThinkingSettings(sampling_on=SamplingDefaults(top_p=0.9))),
}


@pytest.mark.parametrize("dialect", WORDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("history", HISTORIES)
def test_the_quick_look_misses_no_trigger(history, mode, dialect):
    """Rule by rule, on what the rules before it left."""
    asked, thinking = MODES[mode]
    settings = GatewaySettings(upstream="http://x", served_model_name="kimi", thinking=thinking)
    body = {"model": "kimi", "messages": HISTORIES[history], **asked}
    changed = {}
    for row in REQUEST_REWRITES:
        changed |= row.change(body | changed, WORDS[dialect], settings)
    assert rewritten_fields(body, WORDS[dialect], settings) == changed
    if mode != "says nothing":
        assert changed
