"""What goes wrong on the way, in both dialects. At full length: `pytest -m full tests/server/gateway`."""

import asyncio
import gc
import os
import random
import resource

import aiohttp
import orjson
import pytest

DONE = b"data: [DONE]\n\n"
PHASES = ["die_before_headers", "die_mid_frame", "die_between_frames", "end_early", "no_done"]


def without_time(raw):
    return [
        orjson.loads(frame[6:]) | {"created": 0, "id": ""} for frame in raw.split(b"\n\n") if frame[:7] == b"data: {"
    ]


async def test_every_byte_split(either):
    """The engine writes one byte at a time, and every other size up to a frame's."""
    sim = {"pieces": ["修改", "🙂", 'a "b"'], "accepted": [3, 0, 2], "reasoning_steps": 1}
    async with either.post(sim=sim) as response:
        wanted = without_time(await response.read())
    for size in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144):
        async with either.post(sim=sim | {"write_bytes": size}) as response:
            assert without_time(await response.read()) == wanted


async def test_megabyte_frames_and_ten_frames_in_one_write(either):
    async with either.post(sim={"giant_bytes": 2**20, "accepted": [0] * 10, "one_write": True}) as response:
        raw = await response.read()
    assert len(raw) > 2**20
    assert raw.count(b"data: ") >= 12
    assert raw.endswith(DONE)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_engine_dies(either, stream):
    for fault in PHASES:
        sim = {"fault": fault, "fault_after": 3, "accepted": [1, 1]}
        async with either.post(stream, sim=sim) as response:
            raw = await response.read()
            # vLLM's headers are out before it dies, whatever follows.
            begun = stream and (fault != "die_before_headers" or response.status == 200)
            assert response.status == (200 if begun else 502), fault
        assert b"engine_closed_connection" in raw
        assert DONE not in raw
        assert await either.metric("inflight") == 0
        async with either.post() as response:
            assert (await response.read()).endswith(DONE)


async def test_headers_that_come_late(either):
    """A minute, scaled to a fiftieth like the limit that it has to stay under."""
    async with either.post(sim={"header_delay_s": 1.2, "accepted": [0]}) as response:
        assert (await response.read()).endswith(DONE)


async def test_a_client_that_reads_a_byte_at_a_time(either, eventually):
    """The engine's bytes wait in front of the gateway, not in it; leaving is still noticed."""
    host, port = either.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1)
    body = {"model": "kimi", "stream": True, "messages": [{"role": "user", "content": "x"}], "max_tokens": 64}
    raw = orjson.dumps(body | {"sim": {"pieces": ["x" * 2**20], "accepted": [0] * 64}})
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        assert len(await reader.readexactly(1)) == 1
        await asyncio.sleep(0.01)
    assert either.engine.record.running == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    writer.transport.abort()
    await eventually(lambda: either.engine.record.running == 0)


async def test_a_thousand_streams_at_once(open_gateway, eventually):
    async with open_gateway() as gateway:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(base_url=gateway.url, connector=connector) as client:
            leave = asyncio.Event()

            async def one(stays):
                body = {"model": "kimi", "stream": True, "messages": [{"role": "user", "content": "x"}]}
                body["sim"] = (
                    {"accepted": [0] * 3} if stays else {"fault": "stall", "fault_after": 3, "accepted": [1, 1]}
                )
                async with client.post("/v1/chat/completions", json=body) as response:
                    if stays:
                        return (await response.read()).endswith(DONE)
                    await response.content.readany()
                    await leave.wait()
                    return response.status == 200

            held = [asyncio.create_task(one(False)) for _ in range(1000)]
            await eventually(lambda: gateway.engine.record.running == 1000, seconds=30)
            assert await gateway.metric("inflight") == 1000
            assert await one(True)
            leave.set()
            assert all(await asyncio.gather(*held))
        await eventually(lambda: gateway.engine.record.running == 0, seconds=10)
        await gateway.until("inflight", 0)


async def storm(gateway, eventually, requests):
    """Requests of which a tenth leave at a random moment; gives the memory's growth over the second half, bytes."""
    rng = random.Random(7)
    connector = aiohttp.TCPConnector(limit=0)
    descriptors = len(os.listdir("/proc/self/fd"))
    left = answered = 0

    async def one(client):
        nonlocal left, answered
        stream = rng.random() < 0.7
        sim = {"accepted": [1] * rng.randrange(6), "step_s": 0.002, "header_delay_s": rng.random() * 0.01}
        body = {"model": "kimi", "stream": stream, "sim": sim, "messages": [{"role": "user", "content": "x"}]}
        patience = rng.random() * 0.02 if rng.random() < 0.1 else None
        try:
            async with asyncio.timeout(patience), client.post("/v1/chat/completions", json=body) as response:
                await response.read()
                assert response.status == 200
                answered += 1
        except TimeoutError:
            left += 1

    async def half(client):
        for _ in range(requests // 2 // 50):
            await asyncio.gather(*(one(client) for _ in range(50)))
        gc.collect()
        return resident()

    async with aiohttp.ClientSession(base_url=gateway.url, connector=connector) as client:
        first = await half(client)
        second = await half(client)
    record = gateway.engine.record
    await eventually(lambda: record.running == 0)
    # Two seconds: idle connections to the engine end by themselves.
    await eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 2, seconds=6)
    assert answered + left == requests
    assert left > requests * 0.02
    assert await gateway.metric("inflight") == 0
    assert await gateway.metric("queue_depth") == 0
    assert await gateway.metric("responses_total", code="500") is None
    ours = [task for task in asyncio.all_tasks() if task.get_name().startswith("abort")]
    assert not ours
    return second - first


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def test_random_leaves_leave_nothing_behind(either, eventually):
    await storm(either, eventually, 400)


@pytest.mark.full
async def test_ten_thousand_requests_with_random_leaves(either, eventually):
    assert await storm(either, eventually, 10_000) < 16 * 2**20
