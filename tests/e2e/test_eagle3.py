"""EAGLE-3 on the real engine, through the gateway: exact, lossless, and worth its while."""

import asyncio
import base64
import collections
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
import torch
from e2e import parity
from e2e.stack import Served
from openai import BadRequestError, NotFoundError, OpenAI
from scipy.stats import chisquare

from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.held_out import held_out_prompts
from k25serve.drafters.tiny.load import load_text_model

pytestmark = pytest.mark.engine
MODEL = "kimi-k2.5-tiny"
SAMPLES = 400
TOP_K = 3


@pytest.fixture
def client(eagle: Served) -> Iterator[OpenAI]:
    url = f"{eagle.gateway_url}/v1"
    with OpenAI(base_url=url, api_key="none", max_retries=0, _strict_response_validation=True) as opened:
        yield opened


async def metrics(url: str) -> dict[str, float]:
    """Sums over labels of each sample name on a Prometheus page."""
    async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(f"{url}/metrics") as answer:
        text = await answer.text()
    sums: dict[str, float] = collections.defaultdict(float)
    for name, value in re.findall(r"^([a-z_0-9:]+)(?:\{.*\})? (\S+)$", text, re.MULTILINE):
        sums[name] += float(value)
    return sums


async def test_greedy_equals_transformers_in_fp32(eagle: Served) -> None:
    outputs, infos = await parity.engine_outputs(eagle.engine_url)
    assert outputs == parity.reference(torch.float32)
    for info in infos:
        histogram = info["spec_correct_drafts_histogram"]
        assert sum(histogram) == info["spec_verify_ct"]
        assert sum(i * n for i, n in enumerate(histogram)) == info["spec_num_correct_drafts"]
    assert sum(info["spec_num_correct_drafts"] for info in infos) > 0


async def test_acceptance_on_held_out_prompts(eagle: Served) -> None:
    """The bar: 2.0 at 3 steps. And the gateway's count is the engine's own."""
    before = await metrics(eagle.gateway_url)

    async def one(session: aiohttp.ClientSession, chat: Chat, stream: bool) -> tuple[int, int]:
        body = {"model": MODEL, "messages": chat.prompt, "temperature": 0, "max_tokens": 160, "stream": stream}
        body |= {"chat_template_kwargs": {"thinking": chat.thinking}, "return_spec_tokens_details": True}
        if chat.tools:
            body["tools"] = chat.tools
        async with session.post(f"{eagle.gateway_url}/v1/chat/completions", json=body) as answer:
            text = await answer.text()
        found = re.search(r'"spec_num_correct_drafts": ?(\d+)', text), re.search(r'"spec_verify_ct": ?(\d+)', text)
        assert found[0] is not None, text[-400:]
        assert found[1] is not None
        return int(found[0][1]), int(found[1][1])

    async with aiohttp.ClientSession(raise_for_status=True) as session:
        counts = [await one(session, chat, index % 2 == 0) for index, chat in enumerate(held_out_prompts())]
    accepted, steps = (sum(column) for column in zip(*counts, strict=True))
    after = await metrics(eagle.gateway_url)
    gained = {name: after[name] - before[name] for name in after}
    print(f"held-out accept_length {1 + accepted / steps:.3f} over {steps} verify steps, {len(counts)} chats")
    assert gained["k25serve_gateway_spec_accepted_tokens_total"] == accepted
    assert gained["k25serve_gateway_spec_steps_total"] == steps
    assert gained["k25serve_gateway_accept_length_count"] == len([1 for _, n in counts if n])
    assert gained["k25serve_gateway_accept_length_sum"] == pytest.approx(sum(1 + a / n for a, n in counts if n))
    assert 1 + accepted / steps >= 2.0


async def test_sampling_under_speculation_is_exact(eagle: Served) -> None:
    """Temperature 1, top-k 3: the first three tokens follow the model's own conditionals (chi-square)."""
    prompt = parity.prompts()[2]
    sampling = {"temperature": 1.0, "top_k": TOP_K, "max_new_tokens": 3, "ignore_eos": True}
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        gate = asyncio.Semaphore(16)

        async def one() -> tuple[int, ...]:
            body = {"input_ids": prompt, "sampling_params": sampling}
            async with gate, session.post(f"{eagle.engine_url}/generate", json=body) as answer:
                return tuple((await answer.json())["output_ids"])

        samples = await asyncio.gather(*(one() for _ in range(SAMPLES)))
    model = load_text_model(torch.float32)
    tested = 0
    for depth in range(3):
        groups = collections.Counter(sample[:depth] for sample in samples)
        for path, size in groups.items():
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *path]])).logits[0, -1]
            best = logits.topk(TOP_K)
            expected = best.values.double().softmax(-1) * size
            seen = collections.Counter(sample[depth] for sample in samples if sample[:depth] == path)
            assert seen.keys() <= set(best.indices.tolist()), f"a token outside the top {TOP_K} after {path}"
            if expected.min() < 5:
                continue
            observed = [seen[int(token)] for token in best.indices]
            result = chisquare(observed, expected.numpy())
            print(f"depth {depth}, {size} samples: {observed} against {expected.tolist()}, p {result.pvalue:.3f}")
            assert result.pvalue > 1e-4
            tested += 1
    assert tested >= 2, "too few groups were large enough to test"


def test_openai_client_streams_with_usage(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the weather in Rome?"}],
        max_tokens=48,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert 1 <= chunks[-1].usage.completion_tokens <= 48
    assert sum(1 for chunk in chunks for choice in chunk.choices if choice.finish_reason) == 1
    assert "sglext" not in chunks[-1].model_dump()


def test_openai_client_gets_typed_errors(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=0)
    assert bad.value.param == "max_tokens"
    with pytest.raises(NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "x"}])
    assert unknown.value.code == "model_not_found"
    with pytest.raises(BadRequestError, match="context length"):
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 9000}])


def test_completions_and_models(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="def main(", max_tokens=8, temperature=0)
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 8
    assert [model.id for model in client.models.list()] == [MODEL]


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_tool_call_round_trip(client: OpenAI) -> None:
    """The tools reach the template, the model calls one, the parser finds it, and its result goes back in."""
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Rome?"}]
    common: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_tokens": 200}
    bare = client.chat.completions.create(messages=messages, **common)
    first = client.chat.completions.create(messages=messages, tools=[WEATHER], **common)
    assert first.usage is not None
    assert bare.usage is not None
    assert first.usage.prompt_tokens > bare.usage.prompt_tokens + 20
    (choice,) = first.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name == "get_weather"
    messages += [
        {"role": "assistant", "content": choice.message.content, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": '{"weather": "sunny", "temperature": 21}'},
    ]
    second = client.chat.completions.create(messages=messages, tools=[WEATHER], **common)
    assert second.choices[0].finish_reason == "stop"
    assert "sunny" in (second.choices[0].message.content or "")


async def test_engine_tells_what_it_does(eagle: Served) -> None:
    assert re.search(r"KV cache: [\d,]+ tokens; [\d,]+ a request with 16 running", eagle.said)
    engine, gateway = await metrics(eagle.engine_url), await metrics(eagle.gateway_url)
    assert engine["sglang:spec_verify_calls_total"] > 0
    for name in ("step_seconds_count", "ttft_seconds_count", "tpot_seconds_count", "requests_total", "inflight"):
        assert f"k25serve_gateway_{name}" in gateway
    assert gateway["k25serve_gateway_inflight"] == 0


def png(width: int, height: int, rgb: tuple[int, int, int]) -> bytes:
    """A one-colour PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(rgb) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("name", "rgb"), [("red", (220, 20, 20)), ("blue", (20, 20, 220))])
def test_image_is_seen(client: OpenAI, name: str, rgb: tuple[int, int, int]) -> None:
    uri = "data:image/png;base64," + base64.b64encode(png(64, 64, rgb)).decode()
    parts: list[Any] = [
        {"type": "text", "text": "What colour is this?"},
        {"type": "image_url", "image_url": {"url": uri}},
    ]
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": parts}], max_tokens=60, temperature=0
    )
    assert name in (answer.choices[0].message.content or "")
