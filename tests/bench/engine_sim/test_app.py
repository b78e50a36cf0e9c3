import asyncio
import signal
import sys

import aiohttp
import pytest

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings

CHAT = "/v1/chat/completions"


@pytest.fixture
async def engine():
    return SimEngine(SimSettings(prefill_s=0.0, step_s=0.0, num_draft_tokens=3))


@pytest.fixture
async def client(engine):
    async with running(engine) as url, aiohttp.ClientSession(base_url=url) as session:
        yield session


def body(stream=True, **sim):
    return {"model": "sim", "messages": [{"role": "user", "content": "hi"}], "stream": stream, "rid": "r", "sim": sim}


async def test_no_headers_come_before_the_first_token(client):
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with client.post(CHAT, json=body(header_delay_s=0.2)) as response:
        assert loop.time() - started >= 0.2
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (await response.read()).endswith(b"data: [DONE]\n\n")


async def test_counts_reach_the_metrics(client, engine, eventually):
    await (await client.post(CHAT, json=body(accepted=[3, 0], prompt_tokens=11))).read()
    await (await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})).read()
    text = await (await client.get("/metrics")).text()
    assert 'sglang:spec_verify_calls_total{model_name="sim"} 2' in text
    assert 'sglang:generation_tokens_total{model_name="sim"} 7' in text
    assert 'sglang:num_requests_total{model_name="sim"} 2' in text
    await eventually(lambda: engine.record.running == 0)
    assert [call.path for call in engine.record.calls] == [CHAT, "/v1/completions"]


@pytest.mark.parametrize(("after", "phase"), [(None, "before_headers"), (2, "streaming")])
async def test_a_client_that_leaves_is_recorded(client, engine, eventually, after, phase):
    sim = {"header_delay_s": 30.0} if after is None else {"fault": "stall", "fault_after": after}
    request = asyncio.create_task(client.post(CHAT, json=body(**sim)))
    if after is None:
        await eventually(lambda: engine.record.calls)
        request.cancel()
    else:
        response = await request
        await response.content.readuntil(b"\n\n")
        response.close()
    await eventually(lambda: engine.record.cancellations)
    (cancellation,) = engine.record.cancellations
    assert (cancellation.rid, cancellation.phase, cancellation.writes) == ("r", phase, after or 0)
    await eventually(lambda: engine.record.running == 0)


@pytest.mark.parametrize(("fault", "status"), [("queue_full", 503), ("bad_request", 400), ("plain_500", 500)])
async def test_faults_that_answer(client, fault, status):
    async with client.post(CHAT, json=body(fault=fault)) as response:
        assert response.status == status


async def test_dying_before_the_headers(client):
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.post(CHAT, json=body(fault="die_before_headers"))


@pytest.mark.parametrize("stream", [True, False])
async def test_dying_inside_an_answer(client, stream):
    async with client.post(CHAT, json=body(stream, fault="die_mid_frame")) as response:
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_aborts_are_recorded(client, engine):
    async with client.post("/abort_request", json={"rid": "x"}) as response:
        assert response.status == 200
    assert list(engine.record.aborts) == [{"rid": "x"}]


async def test_phases(client, engine):
    engine.phase = "loading"
    assert (await client.get("/health")).status == 503
    assert (await client.post(CHAT, json=body())).status == 503
    engine.phase = "silent"
    with pytest.raises(TimeoutError):
        await client.get("/health", timeout=aiohttp.ClientTimeout(total=0.2))
    engine.phase = "ready"
    assert (await client.get("/ready")).status == 200
    assert (await (await client.get("/v1/models")).json())["data"][0]["max_model_len"] == 262_144


async def test_a_wrong_field_of_sim_is_refused(client):
    async with client.post(CHAT, json=body(falt="stall")) as response:
        assert response.status == 400
        assert "falt" in (await response.json())["message"]


async def test_options_for_every_request():
    engine = SimEngine(SimSettings(options=SimOptions(fault="queue_full")))
    async with running(engine) as url, aiohttp.ClientSession(base_url=url) as client:
        request = {"model": "sim", "messages": []}
        assert (await client.post(CHAT, json=request)).status == 503


async def test_runner_serves_until_it_is_told_to_stop():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "k25serve.bench.engine_sim", "--port", "0", "--prefill-s", "0"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        url = line.split()[-1]
        async with (
            aiohttp.ClientSession(base_url=url) as client,
            client.post(CHAT, json={"model": "sim", "messages": []}) as response,
        ):
            assert response.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
