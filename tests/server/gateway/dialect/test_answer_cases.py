"""Names, usage and ends of an answer. Cases A04, A05, A09, A10, A12."""

import json

import openai
import pytest

from k25serve.bench.engine_sim.probes import text_faults

MESSAGES = [{"role": "user", "content": "hi"}]
USAGE = {"prompt_tokens": 13, "completion_tokens": 20, "total_tokens": 33}


def chunk(*choices, **more):
    return json.dumps(
        {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices} | more
    )


def choice(index=0, reason=None, **delta):
    return {"index": index, "delta": delta, "finish_reason": reason}


def texts(documents, field, index=0):
    return "".join(
        one["delta"].get(field) or "" for document in documents for one in document["choices"] if one["index"] == index
    )


async def stream(gateway, events, frames=None, **fields):
    sim = fields.pop("sim", None) or {"frames": frames}
    async with gateway.post(sim=sim, **fields) as response:
        found = events(await response.read())
    assert found[-1] == "[DONE]"
    return found[:-1]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
async def test_a04_one_name_for_thoughts(open_gateway, make_engine, events, dialect, name):
    sim = {"pieces": ['A "reasoning": B', "C"], "accepted": [0], "reasoning_steps": 1}
    other = "reasoning" if name == "reasoning_content" else "reasoning_content"
    async with open_gateway(make_engine(dialect=dialect), reasoning_field=name) as gateway:
        documents = await stream(gateway, events, sim=sim)
        assert texts(documents, name) == 'A "reasoning": B'
        assert texts(documents, "content") == "C"
        assert not any(other in one["delta"] for document in documents for one in document["choices"])
        async with gateway.post(False, sim=sim) as response:
            message = (await response.json())["choices"][0]["message"]
        assert (message[name], message["content"]) == ('A "reasoning": B', "C")
        assert other not in message


async def test_a04_both_names_at_once_are_said_once(open_gateway, make_engine, events):
    frames = [chunk(choice(reasoning="A", reasoning_content="A")), chunk(choice(reason="stop")), "[DONE]"]
    async with open_gateway(make_engine(dialect="vllm")) as gateway:
        documents = await stream(gateway, events, frames)
    assert texts(documents, "reasoning_content") == "A"
    assert "reasoning" not in documents[0]["choices"][0]["delta"]


@pytest.mark.parametrize(("dialect", "name"), [("sglang", "reasoning_content"), ("vllm", "reasoning")])
@pytest.mark.parametrize("given", [{"reasoning_content": "R"}, {"reasoning": "R"}, {"reasoning_content": ""}])
async def test_a04_history_goes_back_under_the_arms_name(open_gateway, make_engine, dialect, name, given):
    history = [*MESSAGES, {"role": "assistant", "content": "x", **given}, *MESSAGES]
    async with open_gateway(make_engine(dialect=dialect)) as gateway:
        async with gateway.post(False, messages=history) as response:
            assert response.status == 200
        sent = gateway.engine.record.calls[-1].body["messages"][1]
    assert sent == {"role": "assistant", "content": "x", name: next(iter(given.values()))}


async def test_a05_thoughts_that_the_limit_cut_are_no_content(either, events):
    sim = {"pieces": ["a", "b", "c", "d"], "accepted": [0] * 9, "reasoning_steps": 9}
    documents = await stream(either, events, sim=sim, max_tokens=4)
    assert texts(documents, "reasoning_content") == "abcd"
    assert texts(documents, "content") == ""
    assert [one["finish_reason"] for d in documents for one in d["choices"] if one["finish_reason"]] == ["length"]
    async with either.post(False, sim=sim, max_tokens=4) as response:
        whole = (await response.json())["choices"][0]
    assert (whole["message"]["reasoning_content"], whole["message"]["content"]) == ("abcd", None)
    assert whole["finish_reason"] == "length"


TEXT, STOP = chunk(choice(content="a")), chunk(choice(reason="stop"))
USAGE_SHAPES = {
    "as it should be": [TEXT, STOP, chunk(usage=USAGE)],
    "with a placeholder": [TEXT, STOP, chunk(choice(role="assistant", content=""), usage=USAGE)],
    "beside the finish": [TEXT, chunk(choice(reason="stop"), usage=USAGE)],
    "twice": [TEXT, STOP, chunk(usage=USAGE), chunk(usage=USAGE)],
    "in every chunk": [
        chunk(choice(content="a"), usage=USAGE),
        chunk(choice(reason="stop"), usage=USAGE),
        chunk(usage=USAGE),
    ],
    "with the first role": [chunk(choice(role="assistant"), usage=USAGE), TEXT, STOP, chunk(usage=USAGE)],
}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("shape", USAGE_SHAPES)
async def test_a09_exactly_one_usage_event(gateway, events, shape, asked):
    options = {"stream_options": {"include_usage": True}} if asked else {}
    documents = await stream(gateway, events, [*USAGE_SHAPES[shape], "[DONE]"], **options)
    with_usage = [document for document in documents if document.get("usage")]
    assert len(with_usage) == asked
    assert texts(documents, "content") == "a"
    assert len({document["id"] for document in documents}) == 1
    assert documents[-1 - asked]["choices"][0]["finish_reason"] == "stop"
    if asked:
        assert documents[-1]["choices"] == []
        assert documents[-1]["usage"] == USAGE
    assert await gateway.metric("tokens_total", kind="completion") == 20


async def test_a09_usage_in_every_chunk_for_those_who_ask(gateway, events):
    frames = [*USAGE_SHAPES["in every chunk"], "[DONE]"]
    options = {"include_usage": True, "continuous_usage_stats": True}
    documents = await stream(gateway, events, frames, stream_options=options)
    assert [document["usage"] for document in documents] == [USAGE] * 3


CALL = {"index": 0, "id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}
A10 = [
    chunk(choice(0, content="a")),
    chunk(choice(1, content="b")),
    chunk(choice(0, content="c")),
    chunk(
        choice(
            1, tool_calls=[{"index": 0, "id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        )
    ),
]
ENDS = {
    "each once": [chunk(choice(0, "stop")), chunk(choice(1, "tool_calls"))],
    "one twice": [chunk(choice(0, "stop")), chunk(choice(0, "stop")), chunk(choice(1, "tool_calls"))],
    "only the last": [chunk(choice(1, "tool_calls"))],
    "only the first": [chunk(choice(0, "stop"))],
    "both in one frame, then text": [chunk(choice(0, "stop"), choice(1, "tool_calls")), chunk(choice(0, content="x"))],
}


@pytest.mark.parametrize("end", ENDS)
async def test_a10_every_choice_ends_once(gateway, events, end):
    frames = [*A10, *ENDS[end], chunk(usage=USAGE), "[DONE]"]
    documents = await stream(gateway, events, frames, n=2, stream_options={"include_usage": True})
    assert [texts(documents, "content", index) for index in (0, 1)] == ["ac", "b"]
    ended = {}
    for document in documents:
        for one in document["choices"]:
            assert one["index"] not in ended
            if one["finish_reason"]:
                ended[one["index"]] = one["finish_reason"]
    assert ended == {0: "stop", 1: "tool_calls"}
    assert [bool(document.get("usage")) for document in documents].count(True) == 1
    assert documents[-1]["choices"] == []


async def test_an_abort_is_an_error(either, events):
    async with either.post(sim={"fault": "abort", "accepted": [1]}) as response:
        documents = events(await response.read())
    assert [document["error"]["code"] for document in documents if "error" in document] == ["engine_aborted"]
    assert "abort" not in [one["finish_reason"] for d in documents if "choices" in d for one in d["choices"]]
    async with either.post(False, sim={"fault": "abort"}) as response:
        assert response.status == 502
        assert (await response.json())["error"]["code"] == "engine_aborted"
    assert await either.metric("request_seconds_count", outcome="upstream_error") == 2
    client = openai.AsyncOpenAI(base_url=f"{either.url}/v1", api_key="x", max_retries=0)
    chunks = await client.chat.completions.create(
        model="kimi", messages=MESSAGES, stream=True, extra_body={"sim": {"fault": "abort"}}
    )
    with pytest.raises(openai.APIError, match="aborted"):
        [one async for one in chunks]
    await client.close()


CHINESE = "请修改这一行🙂。"


async def test_a12_no_character_is_cut(either, events):
    sim = {"pieces": list(CHINESE), "accepted": [0] * (len(CHINESE) - 1)}
    documents = await stream(either, events, sim=sim | {"write_bytes": 1})
    async with either.post(False, sim=sim) as response:
        whole = (await response.json())["choices"][0]["message"]["content"]
    assert texts(documents, "content") == whole == CHINESE
    assert text_faults(texts(documents, "content"), whole) == []
    assert text_faults("修�", "修改") != []
