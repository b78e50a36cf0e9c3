"""The packaged target's tokenizer, encoders with it under other templates, and a stand-in for an engine."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.data.encode import Encoder
from k25serve.drafters.training.data.options import Thinking
from k25serve.drafters.training.data.tokenizer import load_tokenizer, turn_ends

MakeEncoder = Callable[..., Encoder]
WriteRows = Callable[..., Path]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return load_tokenizer(TARGET, trust_remote_code=False)


@pytest.fixture
def make_encoder(tokenizer: Any) -> MakeEncoder:
    def make(template: str | None = None, thinking: Thinking = Thinking.AS_IS, max_length: int = 4096) -> Encoder:
        used = copy.copy(tokenizer)
        if template is not None:
            used.chat_template = template
        return Encoder(used, turn_ends(TARGET, tokenizer), thinking, max_length)

    return make


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    def write(rows: Sequence[Any], name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@dataclass
class Engine:
    """A stand-in at the HTTP seam: `answer` makes a chat answer from a request's body."""

    answer: Callable[[dict[str, Any]], Any]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def chat(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        body = await request.json()
        self.asked.append(body)
        await asyncio.sleep(0.002)
        self.at_once -= 1
        made = self.answer(body)
        return made if isinstance(made, web.Response) else web.json_response(made)

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "toy"}]})


@asynccontextmanager
async def running(answer: Callable[[dict[str, Any]], Any]) -> AsyncIterator[Engine]:
    engine, app = Engine(answer), web.Application()
    app.add_routes([web.post("/v1/chat/completions", engine.chat), web.get("/v1/models", engine.models)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield engine
    finally:
        await runner.cleanup()


@pytest.fixture
def serve() -> Callable[[Callable[[dict[str, Any]], Any]], Any]:
    return running
