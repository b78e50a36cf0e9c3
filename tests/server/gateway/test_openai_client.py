"""The official client, as users have it."""

import openai
import pytest

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def client(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as opened:
        yield opened


async def stream(client, sim=None, **fields):
    extra = {"sim": sim or {}}
    chunks = await client.chat.completions.create(
        model="kimi", messages=MESSAGES, stream=True, extra_body=extra, **fields
    )
    return [chunk async for chunk in chunks]


async def test_streaming_with_usage(client):
    sim = {"pieces": ["修", "🙂"], "accepted": [3, 1], "reasoning_steps": 1, "prompt_tokens": 7}
    chunks = await stream(client, sim, stream_options={"include_usage": True})
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "🙂修"
    thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks if chunk.choices]
    assert [thought for thought in thoughts if thought] == ["修"]
    (usage,) = [chunk for chunk in chunks if chunk.usage]
    assert usage is chunks[-1]
    assert usage.choices == []
    assert (usage.usage.prompt_tokens, usage.usage.completion_tokens) == (7, 7)
    assert usage.usage.completion_tokens_details.reasoning_tokens == 1
    assert len({chunk.id for chunk in chunks}) == 1


async def test_streaming_without_usage_has_no_chunk_without_choices(client):
    chunks = await stream(client, {"accepted": [1]})
    assert all(chunk.choices for chunk in chunks)
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"


async def test_tool_call_deltas(client):
    sim = {"accepted": [], "tool_calls": [{"name": "get_weather", "arguments": ['{"city":', '"Par', 'is"}']}]}
    chunks = await stream(client, sim)
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert calls[0].id == "functions.get_weather:0"
    assert calls[0].function.name == "get_weather"
    assert "".join(call.function.arguments for call in calls) == '{"city":"Paris"}'
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


async def test_a_whole_answer_and_a_completion(client):
    extra = {"sim": {"pieces": ["a"], "accepted": [1]}}
    answer = await client.chat.completions.create(model="kimi", messages=MESSAGES, extra_body=extra)
    assert answer.choices[0].message.content == "aa"
    assert answer.usage.completion_tokens == 3
    completion = await client.completions.create(model="kimi", prompt="x", extra_body=extra)
    assert completion.choices[0].text == "aa"
    pieces = await client.completions.create(model="kimi", prompt="x", stream=True, extra_body=extra)
    assert "".join([piece.choices[0].text async for piece in pieces]) == "aa"


async def test_two_choices(client):
    chunks = await stream(client, {"accepted": [1]}, n=2, stream_options={"include_usage": True})
    for index in (0, 1):
        ends = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].index == index]
        assert [end for end in ends if end] == ["stop"]
    assert len([chunk for chunk in chunks if chunk.usage]) == 1


async def test_a_tool_history_passes(client, gateway):
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    answered = {"role": "tool", "tool_call_id": "functions.f:0", "content": "Sunny"}
    for assistant in ({"content": None, "tool_calls": [call]}, {"tool_calls": [call]}):
        history = [*MESSAGES, {"role": "assistant", **assistant}, answered]
        await client.chat.completions.create(model="kimi", messages=history)
        assert gateway.engine.record.calls[-1].body["messages"] == history


async def test_errors_are_typed(client):
    with pytest.raises(openai.BadRequestError) as bad:
        await client.chat.completions.create(model="kimi", messages=MESSAGES, temperature=3)
    assert (bad.value.param, bad.value.type) == ("temperature", "invalid_request_error")
    assert "send a number from 0 to 2" in bad.value.message
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        await client.embeddings.create(model="kimi", input="x")
    with pytest.raises(openai.BadRequestError) as refused:
        await stream(client, {"fault": "bad_request"})
    assert refused.value.code == "BadRequestError"
    with pytest.raises(openai.InternalServerError):
        await stream(client, {"fault": "queue_full"})


@pytest.mark.parametrize("fault", ["die_mid_frame", "die_between_frames", "end_early", "error_frame"])
async def test_a_stream_that_breaks_raises_after_its_text(client, fault):
    chunks = await client.chat.completions.create(
        model="kimi",
        messages=MESSAGES,
        stream=True,
        extra_body={"sim": {"fault": fault, "fault_after": 3, "accepted": [1, 1], "pieces": ["a"]}},
    )
    texts = []

    async def read():
        async for chunk in chunks:
            texts.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError):
        await read()
    assert "".join(texts) == "aa"


async def test_models(client):
    assert [model.id async for model in client.models.list()] == ["kimi"]
    assert (await client.models.retrieve("kimi")).owned_by == "k25serve"
