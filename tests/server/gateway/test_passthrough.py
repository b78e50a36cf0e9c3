"""What the client gets is what the engine sent, but for what only the gateway asked for."""

import asyncio
import itertools

import aiohttp
import orjson
import pytest

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.settings import SimSettings

ASK_ALL = {"stream_options": {"include_usage": True}, "return_spec_tokens_details": True}
TEXT = {"pieces": ["修改", "🙂", 'a "quote"'], "accepted": [3, 0, 2], "reasoning_steps": 1, "prompt_tokens": 7}


async def direct(gateway, **extra):
    """The engine's bytes for the gateway's last request, asked again without the gateway."""
    body = {**gateway.engine.record.calls[-1].body, **extra}
    path = gateway.engine.record.calls[-1].path
    async with aiohttp.ClientSession() as session, session.post(gateway.engine_url + path, json=body) as response:
        return await response.read()


def without_time(raw):
    """Two answers to one request differ in `created` only."""
    frames = []
    for frame in raw.split(b"\n\n"):
        if frame.startswith(b"data: {"):
            document = orjson.loads(frame[6:])
            document["created"] = 0
            frame = b"data: " + orjson.dumps(document)
        frames.append(frame)
    return frames


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_with_nothing_to_strip_every_byte_passes(gateway, path):
    async with gateway.post(path=path, sim=TEXT, prompt="x", **ASK_ALL) as response:
        through = await response.read()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert without_time(through) == without_time(await direct(gateway))
    assert through.count(b"sglext") == 1
    assert through.count(b'"usage":{') == 1


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("usage", [True, False])
@pytest.mark.parametrize("spec", [True, False])
async def test_what_was_not_asked_for_is_taken_out(gateway, path, usage, spec):
    asked = {"stream_options": {"include_usage": usage}, "return_spec_tokens_details": spec}
    async with gateway.post(path=path, sim=TEXT, prompt="x", **asked) as response:
        through = await response.read()
    assert without_time(through) == without_time(await direct(gateway, **asked))
    assert (b'"usage":{' in through, b"sglext" in through) == (usage, spec)


@pytest.mark.parametrize("writes", [{"write_bytes": 1}, {"write_bytes": 7}, {"one_write": True}, {"crlf": True}])
async def test_the_engines_writes_do_not_show(gateway, writes):
    async with gateway.post(sim=TEXT) as response:
        plain = await response.read()
    async with gateway.post(sim=TEXT | writes) as response:
        odd = await response.read()
    if "crlf" in writes:
        odd = odd.replace(b"\r\n", b"\n")
    ids = [orjson.loads(raw.split(b"\n")[0][6:])["id"].encode() for raw in (plain, odd)]
    assert without_time(plain.replace(ids[0], b"id")) == without_time(odd.replace(ids[1], b"id"))
    assert "�" not in odd.decode()


async def test_a_megabyte_frame_passes(gateway):
    async with gateway.post(sim={"giant_bytes": 2**20, "accepted": []}) as response:
        through = await response.read()
    assert len(through) > 2**20
    assert through.endswith(b"data: [DONE]\n\n")


async def test_a_whole_answer_loses_only_sglext(gateway):
    async with gateway.post(stream=False, sim=TEXT) as response:
        through = await response.read()
        assert response.headers["content-length"] == str(len(through))
    wanted = orjson.loads(await direct(gateway, return_spec_tokens_details=False))
    document = orjson.loads(through)
    assert document | {"created": 0} == wanted | {"created": 0}
    assert list(document) == list(wanted)


async def test_a_whole_answer_with_acceptance_asked_for_passes_untouched(gateway):
    async with gateway.post(stream=False, sim=TEXT, return_spec_tokens_details=True) as response:
        document = await response.json()
    assert document["sglext"]["spec_tokens_details"]["spec_verify_ct"] == 3


async def test_the_engine_gets_every_field_as_it_was_sent(gateway):
    raw = (
        b'{"model": "kimi", "max_completion_tokens":5,"max_tokens": 50,\n'
        b'"messages":[{"role":"user","content":"\\u4fee"}],"chat_template_kwargs":{"thinking":false},'
        b' "big":123456789012345678901234567890, "f":1.10, "empty":""}'
    )
    async with gateway.client.post("/v1/chat/completions", data=raw) as response:
        assert (await response.json())["usage"]["completion_tokens"] == 5
    call = gateway.engine.record.calls[-1]
    assert call.raw.startswith(raw[:-1] + b",")
    assert call.body["return_spec_tokens_details"] is True
    assert len(call.body["rid"]) == 32
    assert int(call.body["rid"], 16) >= 0


async def test_an_image_of_megabytes_reaches_the_engine(gateway):
    url = "data:image/png;base64," + "A" * (3 * 2**20)
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    async with gateway.post(stream=False, messages=[message]) as response:
        assert response.status == 200
    assert gateway.engine.record.calls[-1].body["messages"] == [message]


async def test_a_clients_rid_is_replaced(gateway):
    async with gateway.post(stream=False, rid="") as response:
        document = await response.json()
        assert document["id"] == response.headers["x-request-id"]
    assert gateway.engine.record.calls[-1].body["rid"] == document["id"]


async def test_a_clients_headers_and_key_do_not_reach_the_engine(open_gateway):
    async with open_gateway(arm={"api_key": "engine-key"}) as gateway:
        headers = {"Authorization": "Bearer client-key", "X-Data-Parallel-Rank": "3"}
        body = {"model": "kimi", "messages": [{"role": "user", "content": "x"}]}
        async with gateway.client.post("/v1/chat/completions", json=body, headers=headers) as response:
            assert response.status == 200
        sent = gateway.engine.record.calls[-1].headers
        assert sent["authorization"] == "Bearer engine-key"
        assert "x-data-parallel-rank" not in sent


async def test_frames_leave_as_they_come(open_gateway):
    engine = SimEngine(SimSettings(prefill_s=0.0, step_s=0.1, step_cv=0))
    async with open_gateway(engine) as gateway, gateway.post(sim={"accepted": [0, 0, 0]}) as response:
        loop = asyncio.get_running_loop()
        times = []
        async for data in response.content.iter_any():
            times += [loop.time()] * data.count(b'"content":"')
    gaps = [b - a for a, b in itertools.pairwise(times[1:])]
    assert len(gaps) == 3
    assert all(0.05 < gap < 0.3 for gap in gaps)


async def test_many_streams_at_once_stay_apart(gateway):
    async def one(i):
        async with gateway.post(sim={"pieces": [f"<{i}>"], "accepted": [0] * 20, "step_s": 0.001}) as response:
            frames = (await response.text()).split("\n\n")
        return {
            orjson.loads(frame[6:])["choices"][0]["delta"].get("content")
            for frame in frames
            if frame.startswith("data: {")
        } - {"", None}

    assert await asyncio.gather(*(one(i) for i in range(40))) == [{f"<{i}>"} for i in range(40)]
    assert await gateway.metric("inflight") == 0
