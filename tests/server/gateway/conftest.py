import asyncio
import contextlib
import io
from dataclasses import dataclass

import aiohttp
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimSettings
from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.run import serve
from k25serve.server.gateway.settings import GatewaySettings

CHAT = "/v1/chat/completions"


@dataclass
class Gateway:
    """A gateway on a real socket, with the simulated engine that it stands before."""

    url: str
    engine: SimEngine
    readiness: Readiness
    client: aiohttp.ClientSession
    engine_url: str

    def post(self, stream=True, path=CHAT, sim=None, **fields):
        """A request's context manager; `sim` says what the engine does."""
        body = {"model": "kimi", "stream": stream, "sim": sim or {}, **fields}
        body.setdefault("messages", [{"role": "user", "content": "hi"}])
        data = io.BytesIO(orjson.dumps(body))
        return self.client.post(path, data=data, headers={"Content-Type": "application/json"})

    async def metric(self, name, **labels):
        """Sum of the samples of `name` that have these labels; None if there are none."""
        text = await (await self.client.get("/metrics")).text()
        values = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"k25serve_gateway_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(values) if values else None


@contextlib.asynccontextmanager
async def serving(app):
    port = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result, drain_s=1))
    try:
        yield f"http://127.0.0.1:{await port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def open_gateway():
    """Opens a gateway before a simulated engine without delays; `probe=True` leaves readiness to its own probe."""

    @contextlib.asynccontextmanager
    async def make(engine=None, *, probe=False, probe_settings=None, upstream=None, **settings):
        engine = engine or SimEngine(SimSettings(prefill_s=0.0, step_s=0.0))
        readiness = Readiness()
        readiness.set_ready()
        async with running(engine) as engine_url:
            settings = {"upstream": upstream or engine_url, "served_model_name": "kimi"} | settings
            configured = GatewaySettings(probe=probe_settings or {}, **settings)
            app = create_app(configured, None if probe else readiness)
            async with serving(app) as url, aiohttp.ClientSession(base_url=url) as client:
                yield Gateway(url, engine, readiness, client, engine_url)

    return make


@pytest.fixture
async def gateway(open_gateway):
    async with open_gateway() as opened:
        yield opened


@pytest.fixture
def eventually():
    """Waits up to `seconds` for `holds()` and returns how long it took."""

    async def wait(holds, seconds=2.0):
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(int(seconds / 0.002)):
            if holds():
                return loop.time() - started
            await asyncio.sleep(0.002)
        raise AssertionError("it did not come true")

    return wait
