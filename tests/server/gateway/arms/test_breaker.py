import asyncio

import pytest
from prometheus_client import CollectorRegistry, Gauge

from k25serve.server.gateway.arms.breaker import Breaker
from k25serve.server.gateway.settings import BreakerSettings


@pytest.fixture
def breaker():
    gauge = Gauge("state", "State.", registry=CollectorRegistry())
    return Breaker(BreakerSettings(failures=3, open_s=0.02), gauge)


def fail(breaker, times):
    for _ in range(times):
        breaker.begin()
        breaker.failed()


def test_it_opens_after_failures_in_a_row(breaker):
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert (breaker.state, breaker.admits) == ("closed", True)
    fail(breaker, 1)
    assert (breaker.state, breaker.admits) == ("open", False)


async def test_one_trial_decides(breaker):
    fail(breaker, 3)
    await asyncio.sleep(0.03)
    assert breaker.admits
    breaker.begin()
    assert (breaker.state, breaker.admits) == ("half_open", False)
    breaker.failed()
    assert (breaker.state, breaker.admits) == ("open", False)
    await asyncio.sleep(0.03)
    breaker.begin()
    breaker.undecided()
    assert (breaker.state, breaker.admits) == ("open", True)
    breaker.begin()
    breaker.succeeded()
    assert (breaker.state, breaker.admits) == ("closed", True)


async def test_an_engine_that_is_gone_is_not_asked_again_and_again(open_gateway):
    async with open_gateway(upstream="http://127.0.0.1:9", breaker={"failures": 2, "open_s": 30}) as gateway:
        for _ in range(4):
            async with gateway.post() as response:
                assert response.status == 503
                assert "retry-after" in response.headers
        assert await gateway.metric("upstream_errors_total", type="refused") == 2
        assert await gateway.metric("breaker_state", arm="sglang") == 2
        assert await gateway.metric("rejected_total", reason="not_ready") == 2


async def test_error_statuses_do_not_open_it(open_gateway):
    async with open_gateway(breaker={"failures": 1}) as gateway:
        for fault in ("plain_500", "queue_full", "bad_request"):
            await (await gateway.post(sim={"fault": fault})).read()
        assert await gateway.metric("breaker_state") == 0
