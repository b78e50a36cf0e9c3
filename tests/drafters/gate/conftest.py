"""A stand-in for an engine at the HTTP seam: it answers what a test tells it to, and keeps what it was asked."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

Answer = Callable[[dict[str, Any]], dict[str, Any] | web.Response]


@dataclass
class FakeEngine:
    """`answer` makes a chat answer from a request's body; `metrics` is its /metrics page."""

    answer: Answer
    metrics: Callable[[], str] = lambda: ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        made = self.answer(body)
        return made if isinstance(made, web.Response) else web.json_response(made)

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "toy"}]})

    async def page(self, _request: web.Request) -> web.Response:
        return web.Response(text=self.metrics())


@asynccontextmanager
async def running(engine: FakeEngine) -> AsyncIterator[FakeEngine]:
    app = web.Application()
    app.add_routes(
        [
            web.post("/v1/chat/completions", engine.chat),
            web.get("/v1/models", engine.models),
            web.get("/metrics", engine.page),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield engine
    finally:
        await runner.cleanup()


@pytest.fixture
def serve() -> Callable[[FakeEngine], Any]:
    return running


@pytest.fixture
def fake() -> type[FakeEngine]:
    return FakeEngine


@pytest.fixture
def sglang() -> Callable[..., dict[str, Any]]:
    """An answer of SGLang's with `accepted` draft tokens in `steps` verify steps."""

    def make(steps: int = 10, accepted: int = 15, tokens: int = 25, **message: Any) -> dict[str, Any]:
        details = {"spec_verify_ct": steps, "spec_num_correct_drafts": accepted, "spec_num_proposed_drafts": 3 * steps}
        return {
            "choices": [{"message": {"role": "assistant", "content": "yes", **message}}],
            "usage": {"completion_tokens": tokens},
            "sglext": {"spec_tokens_details": details},
        }

    return make
