"""Ready means: a drafter's path and a cached prefix have been computed once. Against a fake engine at the HTTP seam."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from e2e.stack import free_ports

from k25serve.server.config import load_profile
from k25serve.server.engine.readiness import wait_ready
from k25serve.server.errors import EngineFailed


class RunningEngine:
    """As much of an EngineProcess as waiting looks at: one that never ends."""

    pid = 1

    def __init__(self, log: Path) -> None:
        log.write_text("")
        self.log = log

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0

    def obituary(self, code: int) -> str:
        return f"ended with {code}"


@asynccontextmanager
async def engine(port: int, statuses: list[int]) -> AsyncIterator[list[dict[str, Any]]]:
    """Answers chats with the statuses in turn, then 200; yields the bodies asked for."""
    bodies: list[dict[str, Any]] = []

    async def chat(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.Response(status=statuses.pop(0) if statuses else 200, text="the engine's reason")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield bodies
    finally:
        await runner.cleanup()


async def ready(tmp_path: Path, statuses: list[int]) -> list[dict[str, Any]]:
    (port,) = free_ports(1)
    profile = load_profile("cpu-tiny", [f"engine.port={port}"])
    async with engine(port, statuses) as bodies:
        async with asyncio.timeout(20):
            await wait_ready(RunningEngine(tmp_path / "log"), profile)  # type: ignore[arg-type]
    return bodies


async def test_a_drafted_answer_and_a_cached_prefix_come_before_ready(tmp_path: Path) -> None:
    first, second = await ready(tmp_path, [])
    assert min(first["max_tokens"], second["max_tokens"]) > 4, "more than one verify step of four tokens can bring"
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert len(second["messages"]) > len(first["messages"])


async def test_an_engine_that_is_not_there_yet_is_asked_again(tmp_path: Path) -> None:
    assert len(await ready(tmp_path, [503, 200, 500])) == 4


async def test_a_refusal_is_told_with_the_engines_reason(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="HTTP 400: the engine's reason"):
        await ready(tmp_path, [400])


async def test_a_cancellation_at_the_last_moment_is_heard(tmp_path: Path) -> None:
    leaving = asyncio.Event()

    class SlowToLeave(RunningEngine):
        async def wait(self) -> int:
            try:
                return await super().wait()
            finally:
                leaving.set()
                await asyncio.sleep(0.05)

    (port,) = free_ports(1)
    profile = load_profile("cpu-tiny", [f"engine.port={port}"])
    async with engine(port, []):
        waiting = asyncio.create_task(wait_ready(SlowToLeave(tmp_path / "log"), profile))  # type: ignore[arg-type]
        async with asyncio.timeout(20):
            await leaving.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
