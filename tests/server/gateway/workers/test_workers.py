"""Several workers, and what they count. Case C02."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from k25serve.server.gateway.workers.shared_metrics import VARIABLE, clear

PROGRAM = """
import asyncio, contextlib, signal, sys
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.workers.supervise import run_workers

async def main():
    settings = GatewaySettings(
        arms=[{"name": "sglang", "url": sys.argv[1], "max_concurrency": 60}],
        served_model_name="kimi",
        workers=int(sys.argv[3]),
        probe={"interval_s": 0.05, "health_interval_s": 60},
        conversation_log={"directory": sys.argv[4]} if len(sys.argv) > 4 else None,
    )
    serving = asyncio.create_task(run_workers(settings, "127.0.0.1", int(sys.argv[2]), drain_s=2))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving

asyncio.run(main())
"""


class Pool:
    """A pool of workers in a process of its own."""

    def __init__(self, url, process):
        self.url = url
        self.process = process

    async def request(self, path="/v1/chat/completions", **fields):
        """On a connection of its own, so that any worker may get it."""
        async with aiohttp.ClientSession(base_url=self.url, connector=aiohttp.TCPConnector(force_close=True)) as client:
            body = {"model": "kimi", "messages": [{"role": "user", "content": "x"}], **fields}
            async with client.request("POST" if "chat" in path else "GET", path, json=body) as response:
                return response.status, await response.text()

    async def scrape(self):
        _, text = await self.request("/metrics")
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    async def total(self, name):
        return sum(sample.value for sample in await self.scrape() if sample.name == f"k25serve_gateway_{name}")

    async def until(self, name, holds):
        for _ in range(400):
            if holds(await self.total(name)):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{name} is {await self.total(name)}")

    def workers(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    async def until_ready(self, count):
        """Waits until every worker answers with 200."""
        async with asyncio.timeout(40):
            while True:
                try:
                    answers = [(await self.request("/ready"))[0] for _ in range(8)]
                    ready = [sample for sample in await self.scrape() if sample.name == "k25serve_gateway_arm_ready"]
                    if set(answers) == {200} and len(self.workers()) == count and ready[0].value == 1:
                        return
                except (aiohttp.ClientError, IndexError):
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.05)


@pytest.fixture
def start_pool(gateway):
    started = []

    async def start(workers, env=None, *log):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", PROGRAM, gateway.engine_url, str(port), str(workers), *map(str, log)),
            env={**os.environ, **(env or {})},
        )
        pool = Pool(f"http://127.0.0.1:{port}", process)
        started.append(pool)
        await pool.until_ready(workers)
        return pool

    yield start
    for pool in started:
        if pool.process.returncode is None:
            pool.process.kill()


def running(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def stop(pool):
    workers = pool.workers()
    pool.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await pool.process.wait() == 0
    assert not running(workers)


async def test_c02_every_scrape_says_the_same(start_pool, tmp_path):
    env = {VARIABLE: str(tmp_path / "metrics")}
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_1.db").write_bytes(b"stale")
    pool = await start_pool(3, env)
    for _ in range(40):
        assert (await pool.request())[0] == 200
    ok = "responses_total"
    assert {await pool.total(ok) for _ in range(12)} == {40}
    victim = pool.workers()[0]
    held = [asyncio.create_task(pool.request(stream=True, sim={"header_delay_s": 60})) for _ in range(9)]
    await pool.until("inflight", lambda value: value == 9)
    os.kill(victim, signal.SIGKILL)
    # Those that the dead worker had are gone with it.
    await pool.until("inflight", lambda value: value == sum(not task.done() for task in held))
    await pool.until_ready(3)
    assert victim not in pool.workers()
    for _ in range(10):
        assert (await pool.request())[0] == 200
    assert {await pool.total(ok) for _ in range(12)} == {50}
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    samples = await pool.scrape()
    assert not [sample for sample in samples if "pid" in sample.labels]
    assert max(sample.value for sample in samples if sample.name == "k25serve_gateway_arm_ready") == 1
    await stop(pool)
    again = await start_pool(2, env, tmp_path / "log")
    assert await again.total(ok) == 0
    writers = again.workers()
    for _ in range(20):
        assert (await again.request(sim={"accepted": [1]}))[0] == 200
    await again.until("conversations_logged_total", lambda value: value == 20)
    last = asyncio.create_task(again.request(stream=True, sim={"accepted": [1], "header_delay_s": 0.3}))
    await again.until("inflight", lambda value: value == 1)
    await stop(again)
    assert (await last)[0] == 200
    files = list((tmp_path / "log").iterdir())
    # A file each; the kernel may give all connections to one of them.
    named = [int(path.stem.rpartition("-")[2]) for path in files]
    assert len(set(named)) == len(named)
    assert set(named) <= set(writers)
    assert sum(path.read_bytes().count(b"\n") for path in files) == 21


async def test_c02_one_worker_shows_the_same_names(start_pool, gateway):
    pool = await start_pool(1)
    await pool.request()
    await (await gateway.post(False)).read()
    mine = text_string_to_metric_families(await (await gateway.client.get("/metrics")).text())

    def names(families):
        return {(family.name, family.type, family.documentation) for family in families}

    _, text = await pool.request("/metrics")
    theirs = text_string_to_metric_families(text)
    # What nothing has been counted for has no file yet.
    assert names(theirs) <= names(mine)
    assert {"k25serve_gateway_responses", "k25serve_gateway_inflight"} <= {
        family.name for family in text_string_to_metric_families(text)
    }
    await stop(pool)


async def test_workers_end_with_their_supervisor(start_pool):
    pool = await start_pool(2)
    workers = pool.workers()
    pool.process.kill()
    for _ in range(400):
        if not running(workers):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"still there: {running(workers)}")


def test_only_metrics_files_are_cleared(tmp_path):
    for name in ("counter_1.db", "keep.txt"):
        (tmp_path / name).write_text("x")
    clear(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["keep.txt"]
