"""Admission over HTTP."""

import asyncio

STALL = {"fault": "stall", "fault_after": 3, "accepted": [0] * 5}


async def start(gateway, eventually, **fields):
    """A request that holds its slot until it is closed."""
    calls = len(gateway.engine.record.calls)
    response = await gateway.post(sim=STALL, **fields)
    await eventually(lambda: len(gateway.engine.record.calls) > calls)
    return response


async def test_more_than_the_slots_wait_and_more_than_the_queue_are_told(open_gateway, eventually):
    async with open_gateway(arm={"max_concurrency": 1, "max_queue": 1}) as gateway:
        first = await start(gateway, eventually)
        waiting = asyncio.create_task(gateway.post(False).__aenter__())
        await gateway.until("queue_depth", 1)
        async with gateway.post() as refused:
            assert refused.status == 503
            assert refused.headers["retry-after"] == "5"
            assert (await refused.json())["error"]["code"] == "no_capacity"
        assert len(gateway.engine.record.calls) == 1
        first.close()
        assert (await waiting).status == 200
        assert await gateway.metric("rejected_total", reason="queue_full") == 1
        assert await gateway.metric("queue_depth") == 0
        assert await gateway.metric("queue_wait_seconds_count") == 2


async def test_leaving_the_queue(open_gateway, eventually):
    async with open_gateway(arm={"max_concurrency": 1}) as gateway:
        first = await start(gateway, eventually)
        waiting = asyncio.create_task(gateway.post().__aenter__())
        await gateway.until("queue_depth", 1)
        waiting.cancel()
        await gateway.until("queue_depth", 0)
        first.close()
        async with gateway.post(False) as response:
            assert response.status == 200
        assert len(gateway.engine.record.calls) == 2
        assert await gateway.metric("disconnects_total", phase="queued") == 1
        assert await gateway.metric("responses_total", code="499") == 1
        assert await gateway.metric("inflight") == 0


async def test_too_long_in_the_queue(open_gateway, eventually):
    async with open_gateway(arm={"max_concurrency": 1}, queue_timeout_s=0.05) as gateway:
        first = await start(gateway, eventually)
        async with gateway.post() as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert await gateway.metric("rejected_total", reason="queue_timeout") == 1
        first.close()


async def test_a_key_over_its_limit(open_gateway, eventually):
    async with open_gateway(key_max_concurrency=1) as gateway:
        first = await start(gateway, eventually)
        async with gateway.post() as refused:
            assert (refused.status, refused.headers["retry-after"]) == (429, "5")
            assert (await refused.json())["error"]["type"] == "rate_limit_error"
        assert await gateway.metric("rejected_total", reason="key_limit") == 1
        first.close()


async def test_one_keys_flood_delays_another_by_one_turn(open_gateway, eventually, tmp_path, make_keys):
    keys = make_keys(flood="", quiet="")
    async with open_gateway(keys_file=keys.path, arm={"max_concurrency": 1}) as gateway:
        order = []

        async def ask(key):
            headers = keys.header(key)
            async with gateway.post(False, sim={"header_delay_s": 0.01, "accepted": []}, headers=headers) as response:
                assert response.status == 200
            order.append(key)

        flood = [asyncio.create_task(ask("flood")) for _ in range(10)]
        await gateway.until("queue_depth", 5)
        await ask("quiet")
        assert order.index("quiet") <= 9 - 3
        await asyncio.gather(*flood)
