"""A ready engine that stops answering without ending: the gateway is told, and told again when it is back."""

import asyncio
from typing import Protocol

import aiohttp

INTERVAL_S = 2.0
TIMEOUT_S = 5.0
FAILURES = 3


class Readiness(Protocol):
    """What the gateway offers to whoever watches its engine."""

    def set_ready(self) -> None: ...

    def set_not_ready(self, reason: str) -> None: ...


async def follow_health(engine_url: str, readiness: Readiness) -> None:
    """Poll the engine's model list, which costs it no work; three failures in a row mean not ready. Never returns."""
    failures = 0
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            await asyncio.sleep(INTERVAL_S)
            well = await _answers(session, f"{engine_url}/v1/models")
            if well and failures >= FAILURES:
                readiness.set_ready()
            failures = 0 if well else failures + 1
            if failures == FAILURES:
                readiness.set_not_ready(f"the engine at {engine_url} stopped answering")


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
