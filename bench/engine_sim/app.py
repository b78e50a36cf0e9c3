"""The simulated engine as an ASGI app."""

import asyncio
import random
import time
from collections.abc import Coroutine
from typing import Any, Literal

import orjson
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from k25serve.bench.engine_sim import sglang, vllm
from k25serve.bench.engine_sim.draw import Answer, draw_answer
from k25serve.bench.engine_sim.exposition import exposition
from k25serve.bench.engine_sim.faults import HangUp, Stall, stream_actions
from k25serve.bench.engine_sim.record import Call, Cancellation, Record
from k25serve.bench.engine_sim.server import hang_up
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings
from k25serve.bench.engine_sim.sglang import Asked, error_body

Phase = Literal["silent", "loading", "ready"]

_GENERATION = ("/v1/chat/completions", "/v1/completions")
_HEALTH = {"sglang": ("/health", "/health_generate", "/ready"), "vllm": ("/health",)}
_DIALECTS = {"sglang": sglang, "vllm": vllm}
_DEFAULT_MAX_TOKENS = 16
# SGLang 0.5.23, tokenizer_manager.py, _validate_one_request.
_TOO_LONG = "The input (9000 tokens) is longer than the model's context length (4096 tokens)."
_JSON = b"application/json"
_EVENTS = b"text/event-stream; charset=utf-8"


class SimEngine:
    """Answers as SGLang or vLLM would, in drawn times, and keeps a record.

    `phase` is set by whoever runs it: "silent" accepts connections and answers nothing, "loading" answers 503.
    """

    def __init__(self, settings: SimSettings | None = None) -> None:
        self.settings = settings or SimSettings()
        self.record = Record()
        self.phase: Phase = "ready"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the simulated engine serves http only, not {scope['type']}: run it with lifespan off")
        raw = await _body(receive)
        path = scope["path"]
        if self.phase == "silent":
            await _until_gone(asyncio.Event().wait(), receive)
        elif path in _HEALTH[self.settings.dialect]:
            await _send(send, 200 if self.phase == "ready" else 503, b"")
        elif path == "/metrics":
            known = self.settings
            page = exposition(self.record, known.dialect, known.served_model_name, known.num_draft_tokens)
            await _send(send, 200, page, b"text/plain; version=0.0.4")
        elif path == "/v1/models":
            await _send_json(send, 200, self._models())
        elif self.phase == "loading":
            await _send_json(send, 503, error_body("The engine is loading.", "503", 503))
        elif path == "/abort_request" and scope["method"] == "POST" and self.settings.dialect == "sglang":
            self.record.aborts.append(orjson.loads(raw))
            await _send(send, 200, b"")
        elif path in _GENERATION and scope["method"] == "POST":
            await self._generate(scope, raw, receive, send)
        else:
            await _send_json(send, 404, {"detail": "Not Found"})

    async def _generate(self, scope: Scope, raw: bytes, receive: Receive, send: Send) -> None:
        try:
            body = orjson.loads(raw)
            options = self.settings.options if "sim" not in body else SimOptions.model_validate(body["sim"])
        except (orjson.JSONDecodeError, ValidationError) as error:
            await _send_json(send, 400, error_body(str(error), "BadRequestError", 400))
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.record.calls.append(Call(scope["path"], headers, raw, body))
        request = _Request(self, scope, body, options, send)
        self.record.running += 1
        try:
            if not await _until_gone(request.answer(), receive):
                phase: Literal["before_headers", "streaming"] = "streaming" if request.writes else "before_headers"
                at = asyncio.get_running_loop().time()
                self.record.cancellations.append(Cancellation(request.asked.rid, phase, at, request.writes))
        finally:
            self.record.running -= 1

    def _models(self) -> dict[str, Any]:
        name = self.settings.served_model_name
        card = {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": self.settings.dialect,
            "root": name,
            "parent": None,
        }
        return {"object": "list", "data": [card | {"max_model_len": self.settings.context_length}]}


class _Request:
    """One generation request on its way out."""

    def __init__(self, engine: SimEngine, scope: Scope, body: dict[str, Any], options: SimOptions, send: Send) -> None:
        self._record = engine.record
        self._scope = scope
        self._options = options
        self._send = send
        self._stream = bool(body.get("stream"))
        self._dialect = engine.settings.dialect
        self._words = _DIALECTS[self._dialect]
        self.asked = _asked(body, scope["path"], engine.settings)
        self.writes = 0
        prompt_tokens = options.prompt_tokens or len(orjson.dumps(body.get("messages") or body.get("prompt"))) // 4 + 1
        max_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or _DEFAULT_MAX_TOKENS
        rng = random.Random(f"{engine.settings.seed}:{engine.record.served}")
        engine.record.served += 1
        self._answer: Answer = draw_answer(engine.settings, options, prompt_tokens, max_tokens, rng)

    async def answer(self) -> None:
        fault = self._options.fault
        if fault == "queue_full":
            await self._refuse(503, "The request queue is full.", "SERVICE_UNAVAILABLE")
        elif fault == "bad_request":
            await self._refuse(400, "The input is refused.", "BadRequestError")
        elif fault == "too_long":
            await self._refuse(400, _TOO_LONG, "BadRequestError")
        elif fault == "plain_500":
            await _send(self._send, 500, b"Internal Server Error", b"text/plain; charset=utf-8")
        elif fault == "die_before_headers":
            await asyncio.sleep(self._answer.steps[0].seconds)
            hang_up(self._scope)
        elif self._stream:
            await self._answer_stream()
        else:
            await self._answer_whole()

    async def _refuse(self, status: int, message: str, kind: str) -> None:
        await _send_json(self._send, status, self._words.error_body(message, kind, status))

    async def _answer_whole(self) -> None:
        await asyncio.sleep(sum(step.seconds for step in self._answer.steps))
        raw = self._words.whole_answer(self.asked, self._answer, self._options)
        if self._options.whole is not None:
            raw = self._options.whole.encode()
        if self._options.fault not in (None, "abort"):
            # Every fault that cuts a stream cuts a whole answer in half.
            await _start(self._send, 200, _JSON, len(raw))
            await self._write(raw[: len(raw) // 2])
            if self._options.fault == "stall":
                await asyncio.Event().wait()
            hang_up(self._scope)
            return
        self._record.count(self._answer, self.asked.n)
        await _send(self._send, 200, raw)

    async def _answer_stream(self) -> None:
        """SGLang sends no header before the first frame is there; vLLM sends them at once."""
        frames = self._words.stream_frames(self.asked, self._answer, self._options)
        if self._options.frames is not None:
            pause_s = self._options.step_s or 0.0
            frames = (sglang.Frame(data.encode(), pause_s) for data in self._options.frames)
        started = self._dialect == "vllm"
        if started:
            await _start(self._send, 200, _EVENTS)
        for action in stream_actions(frames, self._options):
            if isinstance(action, HangUp):
                hang_up(self._scope)
                return
            if isinstance(action, Stall):
                await asyncio.Event().wait()
                return
            if action.seconds:
                await asyncio.sleep(action.seconds)
            if not started:
                await _start(self._send, 200, _EVENTS)
                started = True
            await self._write(action.data)
        if not started:
            await _start(self._send, 200, _EVENTS)
        self._record.count(self._answer, self.asked.n)
        await self._send({"type": "http.response.body", "body": b""})

    async def _write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self.writes += 1
        if self._options.write_bytes:
            # Lets each write reach the wire by itself.
            await asyncio.sleep(0)


def _asked(body: dict[str, Any], path: str, settings: SimSettings) -> Asked:
    stream_options = body.get("stream_options") or {}
    return Asked(
        rid=body.get("rid") or body.get("request_id") or f"{random.getrandbits(128):032x}",
        model=body.get("model") or settings.served_model_name,
        chat=path == "/v1/chat/completions",
        n=body.get("n") or 1,
        include_usage=bool(stream_options.get("include_usage")),
        continuous_usage=bool(stream_options.get("continuous_usage_stats")),
        spec_details=bool(body.get("return_spec_tokens_details")),
        created=int(time.time()),
    )


async def _body(receive: Receive) -> bytes:
    parts = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _until_gone(work: Coroutine[Any, Any, object], receive: Receive) -> bool:
    """Whether `work` ended before the client left."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = (asyncio.create_task(work), asyncio.create_task(left()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = tasks[0].done()
        if ended:
            tasks[0].result()
        return ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _start(send: Send, status: int, content_type: bytes, length: int | None = None) -> None:
    headers = [(b"content-type", content_type)]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send(send: Send, status: int, body: bytes, content_type: bytes = _JSON) -> None:
    await _start(send, status, content_type, len(body))
    await send({"type": "http.response.body", "body": body})


async def _send_json(send: Send, status: int, document: object) -> None:
    await _send(send, status, orjson.dumps(document))
