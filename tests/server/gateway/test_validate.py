import contextlib

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k25serve.server.gateway.errors import InvalidRequestError, ModelNotFoundError
from k25serve.server.gateway.validate import MAX_STOPS, check_chat, check_completion, parse

NAMES = ("kimi-k2.5", "kimi")
USER = {"role": "user", "content": "hi"}
CALL = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
TOOL = {"type": "function", "function": {"name": "f"}}


def chat(**fields):
    return {"model": "kimi", "messages": [USER], **fields}


def says(*messages):
    return chat(messages=list(messages))


def user(*parts):
    return says({"role": "user", "content": list(parts)})


GOOD = {
    "least": chat(),
    "unknown fields": chat(chat_template_kwargs={"thinking": False}, whatever=[1], seed=None),
    "nulls": chat(temperature=None, max_tokens=None, stream=None, stop=None, tools=None, response_format=None, n=None),
    "bounds": chat(temperature=0, top_p=1, max_tokens=1, n=1),
    "other bounds": chat(temperature=2.0, top_p=0.01, max_completion_tokens=262144),
    "both limits": chat(max_tokens=50, max_completion_tokens=5),
    "stop": chat(stop=["###"] * MAX_STOPS),
    "stream": chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}),
    "every role": says(
        {"role": "system", "content": "s"},
        {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "Sunny"},
    ),
    "no content with tool calls": says(USER, {"role": "assistant", "tool_calls": [CALL]}),
    "an assistant that only thought": says(USER, {"role": "assistant", "content": None, "reasoning_content": "R"}),
    "thinking part": says(USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "R"}]}),
    "images": user(
        {"type": "text", "text": "what?"},
        IMAGE,
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AA=="}},
    ),
    "arguments as an object": says(
        USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
    ),
    "tools": chat(tools=[TOOL, {"type": "function", "function": {"name": "get-time", "parameters": {}}}]),
    "json": chat(response_format={"type": "json_object"}),
    "schema": chat(response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": {}}}),
    "sglang's own place for a schema": chat(response_format={"type": "json_schema", "schema": {"type": "object"}}),
    "structural tag": chat(response_format={"type": "structural_tag", "structures": [], "triggers": []}),
}

# Each with the field that the error has to name.
BAD = {
    "no model": ({"messages": [USER]}, "model"),
    "model of another type": (chat(model=5), "model"),
    "no messages": ({"model": "kimi"}, "messages"),
    "empty messages": (chat(messages=[]), "messages"),
    "messages of another type": (chat(messages="hi"), "messages"),
    "a message of another type": (says(USER, "hi"), "messages[1]"),
    "no role": (says({"content": "x"}), "messages[0].role"),
    "unknown role": (says({"role": "robot", "content": "x"}), "messages[0].role"),
    "a role that is a list": (says({"role": [], "content": "x"}), "messages[0].role"),
    "user with null content": (says({"role": "user", "content": None}), "messages[0].content"),
    "user without content": (says({"role": "user"}), "messages[0].content"),
    "user with an empty list": (says({"role": "user", "content": []}), "messages[0].content"),
    "system with null content": (says({"role": "system", "content": None}, USER), "messages[0].content"),
    "content of another type": (says({"role": "user", "content": 5}), "messages[0].content"),
    "unknown part": (says(USER, {"role": "user", "content": [{"type": "hologram"}]}), "messages[1].content[0].type"),
    "a part without type": (user({"text": "x"}), "messages[0].content[0].type"),
    "a part of another type": (user("x"), "messages[0].content[0]"),
    "a part whose type is a list": (user({"type": []}), "messages[0].content[0].type"),
    "text without text": (user({"type": "text"}), "messages[0].content[0].text"),
    "text that is no string": (user({"type": "text", "text": 1}), "messages[0].content[0].text"),
    "image as a bare string": (user({"type": "image_url", "image_url": "u"}), "messages[0].content[0].image_url"),
    "image without url": (user({"type": "image_url", "image_url": {}}), "messages[0].content[0].image_url.url"),
    "thinking of a user": (user({"type": "thinking", "thinking": "x"}), "messages[0].content[0].type"),
    "tool calls of another type": (
        says(USER, {"role": "assistant", "tool_calls": {}}),
        "messages[1].tool_calls",
    ),
    "a tool call without function": (
        says(USER, {"role": "assistant", "tool_calls": [{"id": "x"}]}),
        "messages[1].tool_calls[0]",
    ),
    "a tool call without name": (
        says(USER, {"role": "assistant", "tool_calls": [{"function": {}}]}),
        "messages[1].tool_calls[0].function.name",
    ),
    "arguments of another type": (
        says(USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}),
        "messages[1].tool_calls[0].function.arguments",
    ),
    "tool_call_id of another type": (says({"role": "tool", "tool_call_id": 1}), "messages[0].tool_call_id"),
    "no tokens": (chat(max_tokens=0), "max_tokens"),
    "no completion tokens": (chat(max_completion_tokens=0), "max_completion_tokens"),
    "tokens as a float": (chat(max_tokens=5.0), "max_tokens"),
    "tokens as a boolean": (chat(max_tokens=True), "max_tokens"),
    "more tokens than the context": (chat(max_tokens=262145), "max_tokens"),
    "too hot": (chat(temperature=2.1), "temperature"),
    "too cold": (chat(temperature=-0.1), "temperature"),
    "temperature as text": (chat(temperature="1"), "temperature"),
    "no nucleus": (chat(top_p=0), "top_p"),
    "too much nucleus": (chat(top_p=1.01), "top_p"),
    "no choices": (chat(n=0), "n"),
    "stream as text": (chat(stream="true"), "stream"),
    "stream options of another type": (chat(stream_options=True), "stream_options"),
    "include_usage as a number": (chat(stream_options={"include_usage": 1}), "stream_options.include_usage"),
    "stop of another type": (chat(stop=5), "stop"),
    "too many stops": (chat(stop=["x"] * (MAX_STOPS + 1)), "stop"),
    "a stop of another type": (chat(stop=["x", 5]), "stop[1]"),
    "spec details as a number": (chat(return_spec_tokens_details=1), "return_spec_tokens_details"),
    "tools of another type": (chat(tools={}), "tools"),
    "a tool of another type": (chat(tools=["f"]), "tools[0]"),
    "a tool without type": (chat(tools=[{"function": {"name": "f"}}]), "tools[0].type"),
    "a tool of an unknown type": (chat(tools=[TOOL, {"type": "web", "function": {}}]), "tools[1].type"),
    "a tool without function": (chat(tools=[{"type": "function"}]), "tools[0].function"),
    "a tool without name": (chat(tools=[{"type": "function", "function": {}}]), "tools[0].function.name"),
    "a tool with an empty name": (
        chat(tools=[{"type": "function", "function": {"name": ""}}]),
        "tools[0].function.name",
    ),
    "format of another type": (chat(response_format="json"), "response_format"),
    "format without type": (chat(response_format={}), "response_format.type"),
    "unknown format": (chat(response_format={"type": "xml"}), "response_format.type"),
    "format without schema": (chat(response_format={"type": "json_schema"}), "response_format.json_schema"),
    "schema without name": (
        chat(response_format={"type": "json_schema", "json_schema": {"schema": {}}}),
        "response_format.json_schema.name",
    ),
    "schema that is no object": (
        chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": []}}),
        "response_format.json_schema.schema",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_the_engine_can_answer_passes(name):
    before = orjson.dumps(GOOD[name])
    check_chat(GOOD[name], NAMES, 262144)
    assert orjson.dumps(GOOD[name]) == before


@pytest.mark.parametrize("name", BAD)
def test_an_error_names_its_field_and_the_remedy(name):
    body, param = BAD[name]
    with pytest.raises(InvalidRequestError) as caught:
        check_chat(body, NAMES, 262144)
    error = caught.value
    assert error.param == param
    assert error.message.startswith(f"{param} ")
    assert ": send " in error.message
    document = orjson.loads(error.body())["error"]
    assert document.keys() == {"message", "type", "param", "code"}
    assert document["type"] == "invalid_request_error"


def test_an_error_names_the_value_but_not_all_of_it():
    with pytest.raises(InvalidRequestError, match=r"temperature is 7: send a number from 0 to 2\."):
        check_chat(chat(temperature=7), NAMES, None)
    with pytest.raises(InvalidRequestError) as caught:
        check_chat(chat(temperature="x" * 100_000), NAMES, None)
    assert len(caught.value.message) < 250


def test_an_unknown_model_lists_the_names():
    with pytest.raises(ModelNotFoundError, match=r'"gpt-9".*kimi-k2\.5, kimi'):
        check_chat(chat(model="gpt-9"), NAMES, None)


def test_without_a_context_length_any_number_of_tokens_passes():
    check_chat(chat(max_tokens=10**9), NAMES, None)


@pytest.mark.parametrize("prompt", ["", "x", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_prompts_in_every_form_pass(prompt):
    check_completion({"model": "kimi", "prompt": prompt}, NAMES, None)


@pytest.mark.parametrize(("prompt", "param"), [([1] * 9, "prompt"), ([[1], [1] * 8], "prompt[1]")])
def test_token_ids_that_cannot_fit_are_refused(prompt, param):
    with pytest.raises(InvalidRequestError) as caught:
        check_completion({"model": "kimi", "prompt": prompt}, NAMES, 8)
    assert (caught.value.param, caught.value.code) == (param, "context_length_exceeded")
    check_completion({"model": "kimi", "prompt": [1] * 7}, NAMES, 8)


@pytest.mark.parametrize("prompt", [None, 5, {}, [], [None], ["a", 1], [1.5], [-1], [True], [[]], [[1], "a"]])
def test_other_prompts_are_refused(prompt):
    with pytest.raises(InvalidRequestError) as caught:
        check_completion({"model": "kimi", "prompt": prompt}, NAMES, None)
    assert caught.value.param == "prompt"


@pytest.mark.parametrize("raw", [b"", b"  ", b"{", b"[]", b'"x"', b"null", b"\xff", b'{"a":NaN}', b'{"a":"\\ud800"}'])
def test_a_body_that_is_no_json_object_is_refused(raw):
    with pytest.raises(InvalidRequestError) as caught:
        parse(raw)
    assert caught.value.code == "invalid_json"
    assert caught.value.param is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "role", "content"]), inner),
    max_leaves=8,
)
FIELDS = (
    "model",
    "messages",
    "tools",
    "stop",
    "stream_options",
    "response_format",
    "max_tokens",
    "prompt",
    "n",
    "stream",
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), ANY), st.lists(st.dictionaries(st.just("role"), ANY), max_size=2))
def test_no_body_breaks_the_checks(body, messages):
    for candidate in (body, {"model": "kimi", **body}, {**body, "model": "kimi", "messages": messages}):
        for check in (check_chat, check_completion):
            # Any other exception fails.
            with contextlib.suppress(InvalidRequestError, ModelNotFoundError):
                check(candidate, NAMES, 100)
