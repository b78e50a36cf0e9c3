"""The simulated engine in vLLM's dialect."""

import dataclasses
import random

import aiohttp
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.draw import draw_answer
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings, ToolCall
from k25serve.bench.engine_sim.sglang import Asked
from k25serve.bench.engine_sim.vllm import stream_frames, whole_answer

OPTIONS = SimOptions(accepted=(3, 0, 2), pieces=("修", "b"), reasoning_steps=1)
CHAT = Asked("r1", "sim", chat=True, n=1, include_usage=True, continuous_usage=False, spec_details=False, created=5)


def documents(asked=CHAT, options=OPTIONS):
    answer = draw_answer(SimSettings(), options, 7, 100, random.Random(0))
    frames = [frame.data for frame in stream_frames(asked, answer, options)]
    assert frames[-1] == b"[DONE]"
    return [orjson.loads(frame) for frame in frames[:-1]], orjson.loads(whole_answer(asked, answer, options))


def test_thoughts_are_called_reasoning():
    chunks, whole = documents()
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert [delta["reasoning"] for delta in deltas if "reasoning" in delta] == ["修"]
    assert "".join(delta.get("content") or "" for delta in deltas) == "b修b"
    message = whole["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("修", "b修b")


@pytest.mark.parametrize("n", [1, 2])
def test_acceptance_comes_with_the_usage_and_for_one_choice(n):
    chunks, whole = documents(dataclasses.replace(CHAT, n=n))
    for document in (chunks[-1], whole):
        assert document["usage"]["completion_tokens"] == 9 * n
        if n == 1:
            details = document["metrics"]["speculative_decoding"]
            assert (details["num_spec_steps"], details["num_accepted_draft_tokens"]) == (3, 5)
            assert details["mean_acceptance_length"] == pytest.approx(1 + 5 / 3)
        else:
            assert "metrics" not in document
    assert "usage" not in documents(dataclasses.replace(CHAT, include_usage=False))[0][-1]


def test_tool_calls_and_completions():
    options = OPTIONS.model_copy(update={"tool_calls": (ToolCall(name="f", arguments=('{"a":', "1}")),)})
    chunks, whole = documents(options=options)
    parts = [part for c in chunks if c["choices"] for part in c["choices"][0]["delta"].get("tool_calls") or ()]
    assert "".join(part["function"]["arguments"] for part in parts) == '{"a":1}'
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    chunks, whole = documents(dataclasses.replace(CHAT, chat=False))
    assert "".join(c["choices"][0]["text"] for c in chunks if c["choices"]) == whole["choices"][0]["text"] == "修b修b"


async def test_what_is_different_over_http():
    engine = SimEngine(SimSettings(dialect="vllm", prefill_s=5.0, step_s=0.0))
    async with running(engine) as url, aiohttp.ClientSession(base_url=url) as client:
        assert (await client.get("/ready")).status == 404
        assert (await client.get("/health")).status == 200
        assert (await client.post("/abort_request", json={"rid": "x"})).status == 404
        labels = '{engine="0",model_name="sim"'
        assert f"vllm:num_requests_running{labels}}} 0" in await (await client.get("/metrics")).text()
        body = {"model": "sim", "messages": [], "stream": True}
        async with client.post("/v1/chat/completions", json=body, timeout=aiohttp.ClientTimeout(total=2)) as response:
            assert response.status == 200
        async with client.post("/v1/chat/completions", json=body | {"sim": {"fault": "too_long"}}) as response:
            assert response.status == 400
            assert "context length" in (await response.json())["error"]["message"]


async def test_frames_and_bodies_word_for_word():
    engine = SimEngine(SimSettings(prefill_s=0.0, step_s=0.0))
    async with running(engine) as url, aiohttp.ClientSession(base_url=url) as client:
        body = {"model": "sim", "messages": [], "sim": {"frames": ["{1}", "[DONE]"], "whole": "{2}"}}
        async with client.post("/v1/chat/completions", json=body | {"stream": True}) as response:
            assert await response.read() == b"data: {1}\n\ndata: [DONE]\n\n"
        async with client.post("/v1/chat/completions", json=body) as response:
            assert await response.read() == b"{2}"


@pytest.mark.parametrize("drafts", [3, 0])
async def test_metrics_are_vllms(drafts):
    """accept_length and the rate at each position follow as from vLLM's own counters: 1 + accepted / drafts."""
    engine = SimEngine(SimSettings(dialect="vllm", prefill_s=0.0, step_s=0.0, num_draft_tokens=drafts))
    async with running(engine) as url, aiohttp.ClientSession(base_url=url) as client:
        body = {"messages": [], "max_tokens": 90, "sim": {"accepted": [3, 0, 1], "prompt_tokens": 5}}
        await (await client.post("/v1/chat/completions", json=body)).read()
        text = await (await client.get("/metrics")).text()
    values = {
        (sample.name.removeprefix("vllm:spec_decode_"), sample.labels.get("position")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("vllm:spec_decode_")
    }
    assert values == (
        {
            ("num_drafts_total", None): 3,
            ("num_draft_tokens_total", None): 9,
            ("num_accepted_tokens_total", None): 4,
            ("num_accepted_tokens_per_pos_total", "0"): 2,
            ("num_accepted_tokens_per_pos_total", "1"): 1,
            ("num_accepted_tokens_per_pos_total", "2"): 1,
        }
        if drafts
        else {}
    )
