import asyncio
import contextlib
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

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
FAST_PROBE = {
    "interval_s": 0.02,
    "generation_timeout_s": 0.2,
    "health_interval_s": 0.05,
    "health_timeout_s": 0.2,
    "failures": 2,
}


def sim_engine(**settings):
    return SimEngine(SimSettings(**{"prefill_s": 0.0, "step_s": 0.0} | settings))


@dataclass
class Gateway:
    """A gateway on a real socket, with the simulated engine that it stands before."""

    url: str
    engine: SimEngine
    readiness: Readiness
    client: aiohttp.ClientSession
    engine_url: str

    def post(self, stream=True, path=CHAT, sim=None, headers=None, **fields):
        """A request's context manager; `sim` says what the engine does."""
        body = {"model": "kimi", "stream": stream, "sim": sim or {}, **fields}
        body.setdefault("messages", [{"role": "user", "content": "hi"}])
        data = io.BytesIO(orjson.dumps(body))
        return self.client.post(path, data=data, headers={"Content-Type": "application/json", **(headers or {})})

    async def until(self, name, wanted, **labels):
        """Waits until a metric has reached a value."""
        for _ in range(600):
            value = await self.metric(name, **labels)
            if (value is not None and value >= wanted > 0) or value == wanted:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{name} {labels} is {value}, not {wanted}")

    async def until_ready(self, arm, wanted=1):
        """Waits until the gateway's probe has seen the arm's state."""
        await self.until("arm_ready", wanted, arm=arm)

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
    async def make(engine=None, *, probe=False, probe_settings=None, upstream=None, arm=None, others=(), **settings):
        """`arm`: further settings of the first arm. `others`: further arms, each a name, an engine and settings."""
        engine = engine or sim_engine()
        readiness = Readiness()
        readiness.set_ready()
        async with contextlib.AsyncExitStack() as stack:
            engine_url = await stack.enter_async_context(running(engine))
            dialect = engine.settings.dialect
            arms = [{"name": dialect, "url": upstream or engine_url, "dialect": dialect} | (arm or {})]
            for name, other, more in others:
                other_url = await stack.enter_async_context(running(other))
                arms.append({"name": name, "url": other_url, "dialect": other.settings.dialect} | more)
            settings = {"served_model_name": "kimi", "arms": arms} | settings
            configured = GatewaySettings(probe=probe_settings or FAST_PROBE, **settings)
            app = create_app(configured, None if probe else readiness)
            url = await stack.enter_async_context(serving(app))
            client = await stack.enter_async_context(aiohttp.ClientSession(base_url=url))
            gateway = Gateway(url, engine, readiness, client, engine_url)
            for name, other, _ in others:
                if other.phase == "ready":
                    await gateway.until_ready(name)
                other.record.calls.clear()
            yield gateway

    return make


@pytest.fixture
async def gateway(open_gateway):
    async with open_gateway() as opened:
        yield opened


@pytest.fixture(params=["sglang", "vllm"])
async def either(open_gateway, request):
    """A gateway before an engine of each dialect."""
    async with open_gateway(sim_engine(dialect=request.param)) as opened:
        yield opened


@pytest.fixture
def events():
    """The documents of a stream's events, [DONE] as the string."""

    def parse(raw):
        found = [frame.removeprefix(b"data: ") for frame in raw.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]]
        return [frame.decode() if frame == b"[DONE]" else orjson.loads(frame) for frame in found]

    return parse


@dataclass(frozen=True)
class KeysFile:
    """A keys file whose plain keys are known."""

    path: Path

    def key(self, name):
        return f"sk-{name}"

    def header(self, name):
        return {"Authorization": f"Bearer {self.key(name)}"}


@pytest.fixture
def make_keys(tmp_path):
    """Writes a keys file: names, each with its rights."""

    def make(**rights):
        file = KeysFile(tmp_path / f"keys-{'-'.join(rights)}")
        digests = {name: hashlib.sha256(file.key(name).encode()).hexdigest() for name in rights}
        file.path.write_text("".join(f"{name} sha256:{digests[name]} {right}\n" for name, right in rights.items()))
        return file

    return make


@pytest.fixture
def make_engine():
    return sim_engine


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
