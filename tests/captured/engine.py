"""An engine with the row, played over HTTP: SGLang's answers, the row's files."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from aiohttp import web
from captured import played

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.capture.head import Head
from k25serve.patches.hooks.capture_states import CaptureStates

BATCH_S = 0.05  # how long a batch waits for company


@dataclass
class PlayedEngine:
    """url: its address. arguments: its server arguments. asked: every rid, in order. fail: what /generate answers."""

    row: CaptureStates
    model: played.PlayedModel
    url: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    fail: int | None = None
    captures: bool = True
    longest: int = 4090
    batch_s: float = 0.0

    def __post_init__(self) -> None:
        self.head = Head(TARGET)
        self._waiting: list[tuple[str, list[int], asyncio.Future[None]]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/server_info", self._info)
        app.router.add_post("/generate", self._generate)
        return app

    async def _info(self, request: web.Request) -> web.Response:
        state = {"disable_radix_cache": True, "chunked_prefill_size": -1, "dtype": "float32"} | self.arguments
        told = SimpleNamespace(internal_state=state)
        if self.captures:
            self.row.told(told)
        return web.json_response(
            {"version": "0.5.23", "max_req_input_len": self.longest, "internal_states": [told.internal_state]}
        )

    async def _generate(self, request: web.Request) -> web.Response:
        if self.fail is not None:
            return web.Response(status=self.fail, text="refused by the test")
        body = await request.json()
        self.asked.append(body["rid"])
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body["rid"], body["input_ids"], done))
        await asyncio.sleep(self.batch_s)
        self._run()
        await done
        meta: dict[str, Any] = {"cached_tokens": 0}
        if body.get("return_logprob"):
            meta |= self._log_probs(body["input_ids"])
        return web.json_response({"meta_info": meta})

    def _run(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        rids, prompts = [rid for rid, _, _ in waiting], [ids for _, ids, _ in waiting]
        played.run(self.row, self.model, played.forward_batch(prompts, rids))
        for _, _, done in waiting:
            done.set_result(None)

    def _log_probs(self, ids: list[int]) -> dict[str, Any]:
        last = self.model.reference.states(torch.tensor(ids))[-1]
        rows = torch.cat(list(self.head.log_probs(last)))
        own = [[None, ids[0], None], *([float(rows[i, t]), t, None] for i, t in enumerate(ids[1:]))]
        tops = [None, *([[float(row.max()), int(row.argmax()), None]] for row in rows[:-1])]
        return {"input_token_logprobs": own, "input_top_logprobs": tops}


@contextmanager
def serving(engine: PlayedEngine) -> Iterator[PlayedEngine]:
    """The engine on a free port, in a thread of its own."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(engine.app())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        engine.url = f"http://127.0.0.1:{port}"
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield engine
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def armed(directory: Path, model: played.PlayedModel, layers: str = "1,2,3") -> CaptureStates:
    """The row beside the model, writing on this rank."""
    row = played.row(directory, layers)
    row._arm(SimpleNamespace(language_model=SimpleNamespace(model=model)))
    row.facts()
    return row
