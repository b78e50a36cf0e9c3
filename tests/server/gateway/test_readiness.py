import asyncio

import aiohttp
from prometheus_client import CollectorRegistry, Gauge

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.settings import SimSettings
from k25serve.server.gateway.readiness import Readiness

FAST = {
    "interval_s": 0.02,
    "generation_timeout_s": 0.1,
    "health_interval_s": 0.02,
    "health_timeout_s": 0.1,
    "failures": 2,
}


async def status(gateway, path):
    async with gateway.client.get(path) as response:
        return response.status


async def until_ready(gateway, wanted):
    for _ in range(200):
        if await status(gateway, "/ready") == wanted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"/ready never said {wanted}")


def test_an_object_that_a_supervisor_sets():
    readiness = Readiness("loading weights")
    gauge = Gauge("ready", "1 while ready.", registry=CollectorRegistry())
    readiness.show_on(gauge)
    assert (readiness.ready, readiness.reason) == (False, "loading weights")
    readiness.set_ready()
    assert readiness.ready
    assert [sample.value for family in gauge.collect() for sample in family.samples] == [1]
    readiness.set_not_ready("it died")
    assert (readiness.ready, readiness.reason) == (False, "it died")


async def test_not_ready_answers_at_once_and_asks_nobody(gateway):
    gateway.readiness.set_not_ready("loading weights, 40 %")
    for stream in (True, False):
        async with gateway.post(stream) as response:
            assert response.status == 503
            assert response.headers["retry-after"] == "5"
            error = (await response.json())["error"]
            assert error["code"] == "engine_not_ready"
            assert "loading weights, 40 %" in error["message"]
    assert not gateway.engine.record.calls
    assert await gateway.metric("rejected_total", reason="not_ready") == 2
    assert await status(gateway, "/live") == 200
    assert await status(gateway, "/v1/models") == 200
    async with gateway.client.get("/ready") as response:
        assert response.status == 503
        assert "loading weights" in (await response.json())["reason"]
    gateway.readiness.set_ready()
    assert await status(gateway, "/ready") == 200
    async with gateway.post(stream=False) as response:
        assert response.status == 200


async def test_an_engine_that_loads_then_serves_then_falls_silent(open_gateway):
    engine = SimEngine(SimSettings(prefill_s=0.0, step_s=0.0))
    engine.phase = "silent"
    async with open_gateway(engine, probe=True, probe_settings=FAST) as gateway:
        for phase in ("silent", "loading"):
            engine.phase = phase
            await asyncio.sleep(0.25)
            assert await status(gateway, "/live") == 200
            assert await status(gateway, "/ready") == 503
            loop = asyncio.get_running_loop()
            started = loop.time()
            async with gateway.post() as response:
                assert response.status == 503
                assert "retry-after" in response.headers
            assert loop.time() - started < 1
        engine.phase = "ready"
        await until_ready(gateway, 200)
        (probe,) = engine.record.calls
        assert probe.body["max_tokens"] == 1
        async with gateway.post(stream=False) as response:
            assert response.status == 200
        engine.phase = "silent"
        await until_ready(gateway, 503)
        assert "stopped answering" in (await (await gateway.client.get("/ready")).json())["reason"]
        engine.phase = "ready"
        await until_ready(gateway, 200)


async def test_health_alone_does_not_make_it_ready(open_gateway):
    """The engine's health says 200, but it generates nothing."""
    engine = SimEngine(SimSettings(prefill_s=60.0))
    async with open_gateway(engine, probe=True, probe_settings=FAST) as gateway:
        async with aiohttp.ClientSession() as session, session.get(gateway.engine_url + "/health") as response:
            assert response.status == 200
        await asyncio.sleep(0.3)
        assert await status(gateway, "/ready") == 503


async def test_an_engine_without_the_health_path_is_watched_by_its_models(open_gateway):
    probe = FAST | {"health_path": "/no-such-path"}
    async with open_gateway(probe=True, probe_settings=probe) as gateway:
        await until_ready(gateway, 200)
        await asyncio.sleep(0.2)
        assert await status(gateway, "/ready") == 200
        gateway.engine.phase = "silent"
        await until_ready(gateway, 503)
