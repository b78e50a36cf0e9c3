"""`python -m k25serve.bench.gateway.load JSON`: one visit to one gateway; prints what was measured as JSON."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson
import uvloop
from pydantic import BaseModel, ConfigDict

from k25serve.bench.gateway.behaviour import behaviour
from k25serve.bench.gateway.client import Client, Exchange
from k25serve.bench.gateway.directive import Directive
from k25serve.bench.gateway.process import cpu_seconds, rss_mb
from k25serve.bench.gateway.quantile import quantile
from k25serve.bench.gateway.requests import plain

MS = 1e-6


class Visit(BaseModel):
    """What to do. `pid`: the gateway's process, None for the engine itself. `cap_s`: no part takes much longer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    engine: str
    pid: int | None = None
    authorization: str = ""
    cap_s: float = 60.0
    streams: int = 64
    chunks: int = 150
    pace: float = 0.03
    series: int = 300
    per_worker: int = 3
    closed_s: float = 2.0
    requests: int = 0
    """Further requests for the memory's sake."""
    behave: bool = False


async def visit(given: Visit) -> dict[str, Any]:
    """All parts in order; the first one warms up."""
    load = _Load(given)
    await load.closed(16, 0.3)
    started_mb = load.rss()
    found: dict[str, Any] = {
        **await load.burst(),
        **await load.one_by_one(),
        **await load.staggered(),
        **await load.closed(16, given.closed_s),
        "rss_start_mb": started_mb,
        "rss_after_mb": load.rss(),
    }
    if given.requests:
        found |= await load.many(given.requests)
    found["errors"] = load.errors
    if given.behave:
        found["behaviour"] = await behaviour(given.url, given.engine, given.authorization)
    return found


class _Load:
    def __init__(self, given: Visit) -> None:
        self._given = given
        self.errors = 0

    def rss(self) -> float:
        return 0.0 if self._given.pid is None else rss_mb(self._given.pid)

    def _cpu(self) -> float:
        return 0.0 if self._given.pid is None else cpu_seconds(self._given.pid)

    async def _clients(self, count: int) -> list[Client]:
        given = self._given
        return [await Client.connect(given.url, given.authorization) for _ in range(count)]

    def _checked(self, exchanges: list[Exchange]) -> list[Exchange]:
        good = [exchange for exchange in exchanges if exchange.status == 200]
        self.errors += len(exchanges) - len(good)
        if not good:
            raise RuntimeError(f"none of {len(exchanges)} requests to {self._given.url} was answered with 200")
        return good

    async def burst(self) -> dict[str, float]:
        """All streams at once, in step, as an engine's batch sends them. Each has `chunks` + 1 writes."""
        given = self._given
        clients = await self._clients(given.streams)
        body = plain(Directive(chunks=given.chunks, pace=given.pace), stream=True)
        before = self._cpu()
        exchanges = self._checked(await asyncio.gather(*(client.ask(body) for client in clients)))
        spent = self._cpu() - before
        _close(clients)
        delays = [delay * MS for exchange in exchanges for delay in exchange.delays]
        if any(exchange.frames != given.chunks for exchange in exchanges):
            self.errors += 1
        return {
            "chunk_us": spent * 1e6 / (given.streams * (given.chunks + 1)),
            "delay_p50_ms": quantile(delays, 0.5),
            "delay_p99_ms": quantile(delays, 0.99),
            "delay_max_ms": max(delays),
            "gap_max_ms": max(exchange.longest_gap for exchange in exchanges) * MS,
            "frames_per_read": sum(e.frames + 1 for e in exchanges) / sum(e.reads for e in exchanges),
            "burst_ttft_p50_ms": quantile([_ttft(exchange) for exchange in exchanges], 0.5),
        }

    async def one_by_one(self) -> dict[str, float]:
        """C=1 on one kept connection: short streams, then answers without streaming."""
        given = self._given
        [client] = await self._clients(1)
        stream = plain(Directive(chunks=4, pace=0.002), stream=True)
        streamed = await self._series(client, stream)
        whole = await self._series(client, plain(Directive(), stream=False))
        _close([client])
        return {
            **_quantiles("c1_ttft", streamed, _ttft),
            **_quantiles("c1_e2e", streamed, _e2e),
            **_quantiles("c1_whole", whole, _e2e),
            "c1_requests": len(streamed) + len(whole),
        } | ({"c1_seconds": given.cap_s} if len(whole) < given.series else {})

    async def _series(self, client: Client, body: bytes) -> list[Exchange]:
        until = time.monotonic() + self._given.cap_s / 6
        exchanges: list[Exchange] = []
        while len(exchanges) < self._given.series and time.monotonic() < until:
            exchanges.append(await client.ask(body))
        return self._checked(exchanges)

    async def staggered(self) -> dict[str, float]:
        """C=64: each worker asks again and again, and starts a little after the one before it."""
        given = self._given
        clients = await self._clients(64)
        body = plain(Directive(chunks=20, pace=given.pace), stream=True)
        until = time.monotonic() + given.cap_s / 3

        async def work(client: Client, delay: float) -> list[Exchange]:
            await asyncio.sleep(delay)
            done: list[Exchange] = []
            while len(done) < given.per_worker and time.monotonic() < until:
                done.append(await client.ask(body))
            return done

        parts = await asyncio.gather(*(work(client, i * given.pace * 20 / 64) for i, client in enumerate(clients)))
        _close(clients)
        exchanges = self._checked([exchange for part in parts for exchange in part])
        return {**_quantiles("c64_ttft", exchanges, _ttft), **_quantiles("c64_e2e", exchanges, _e2e)}

    async def closed(self, workers: int, seconds: float) -> dict[str, float]:
        """Closed loop without streaming: 4 KB in, 1.2 KB out."""
        until = time.monotonic() + seconds
        count, spent, took = await self._hammer(workers, lambda _: time.monotonic() < until)
        return {"whole_us": spent * 1e6 / count, "whole_per_s": count / took}

    async def many(self, requests: int) -> dict[str, float]:
        """Many requests without streaming, then the memory; at half the count too, to see whether it grows."""
        until = time.monotonic() + self._given.cap_s
        half = requests // 2
        found: dict[str, float] = {}
        total = 0
        for name in ("rss_half_mb", "rss_many_mb"):
            count, _, _ = await self._hammer(16, lambda begun: begun < half and time.monotonic() < until)
            total += count
            found[name] = self.rss()
        return found | {"many_requests": total}

    async def _hammer(self, workers: int, more: Callable[[int], bool]) -> tuple[int, float, float]:
        clients = await self._clients(workers)
        body = plain(Directive(size=1000), stream=False, size=4096)
        begun = 0

        async def work(client: Client) -> None:
            nonlocal begun
            while more(begun):
                begun += 1
                if (await client.ask(body)).status != 200:
                    self.errors += 1

        cpu, clock = self._cpu(), time.monotonic()
        await asyncio.gather(*(work(client) for client in clients))
        spent, took = self._cpu() - cpu, time.monotonic() - clock
        _close(clients)
        return begun, spent, took


def _close(clients: list[Client]) -> None:
    for client in clients:
        client.leave()


def _ttft(exchange: Exchange) -> float:
    return (exchange.first - exchange.sent) * MS


def _e2e(exchange: Exchange) -> float:
    return (exchange.ended - exchange.sent) * MS


def _quantiles(name: str, exchanges: list[Exchange], value: Callable[[Exchange], float]) -> dict[str, float]:
    values = [value(exchange) for exchange in exchanges]
    return {f"{name}_p50_ms": quantile(values, 0.5), f"{name}_p99_ms": quantile(values, 0.99)}


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(uvloop.run(visit(Visit.model_validate_json(sys.argv[1])))))
