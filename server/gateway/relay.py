"""The engine's answer on its way to the client."""

import asyncio
import logging
from time import perf_counter
from typing import Any

import aiohttp
import orjson
from starlette.types import Send

from k25serve.server.gateway.engine_errors import openai_error
from k25serve.server.gateway.errors import ClosedError, GatewayError, Headers, UpstreamError, UpstreamTimeoutError
from k25serve.server.gateway.meter import Outcome, RequestMeter
from k25serve.server.gateway.plan import Plan
from k25serve.server.gateway.reply import JSON, send_error, send_whole
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.stream import StreamFilter
from k25serve.server.gateway.strip import strip_answer
from k25serve.server.gateway.upstream import Upstream
from k25serve.server.gateway.usage import UNREADABLE, read_answer

_log = logging.getLogger(__name__)

# Hop-by-hop, or said anew by our own server.
_NOT_FORWARDED = frozenset(
    {
        "connection",
        "content-length",
        "date",
        "keep-alive",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-request-id",
    }
)
_STREAM_HEADERS: Headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


class Relay:
    """Asks the engine once and passes its answer on; ends with the client told, whatever happened."""

    def __init__(
        self, settings: GatewaySettings, upstream: Upstream, plan: Plan, meter: RequestMeter, send: Send
    ) -> None:
        self._settings = settings
        self._upstream = upstream
        self._plan = plan
        self._meter = meter
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._streaming = False

    async def run(self) -> None:
        """Raises nothing but cancellation. The meter's books are closed before the client has its last byte."""
        try:
            response = await self._open()
            try:
                await self._pass_on(response)
            finally:
                # Harmless after the last byte; before it, this is what tells the engine to stop.
                response.close()
        except UpstreamError as error:
            self._meter.code = error.status
            self._failed(error)
            await send_error(self._send, error)

    async def stop(self, error: GatewayError) -> None:
        """Ends an answer that was cut short by cancelling run(), and tells the client if its form still allows it."""
        unanswered = self._meter.code is None
        self._meter.code = self._meter.code or error.status
        self._settle("cancelled")
        if unanswered:
            await send_error(self._send, error)
        elif self._streaming:
            await self._send({"type": "http.response.body", "body": error.frame()})

    async def _open(self) -> aiohttp.ClientResponse:
        settings = self._settings
        limit_s = settings.first_token_timeout_s if self._plan.stream else settings.answer_timeout_s
        self._meter.called_engine(perf_counter())
        try:
            async with asyncio.timeout(limit_s):
                return await self._upstream.open(self._plan.path, self._plan.body)
        except TimeoutError as error:
            raise self._give_up() from error

    async def _pass_on(self, response: aiohttp.ClientResponse) -> None:
        if response.status == 200 and response.content_type == "text/event-stream":
            await self._stream(response)
            return
        try:
            async with asyncio.timeout_at(self._started + self._settings.answer_timeout_s):
                raw = await response.read()
        except TimeoutError as error:
            raise self._give_up() from error
        except aiohttp.ClientError as error:
            raise self._cut_off() from error
        if response.status == 200:
            await self._whole(response, raw)
        else:
            await self._refusal(response, raw)

    async def _stream(self, response: aiohttp.ClientResponse) -> None:
        self._meter.code = response.status
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": self._headers(response) + _STREAM_HEADERS,
            }
        )
        self._streaming = True
        frames = StreamFilter(self._plan.strip)
        failure: UpstreamError | None = None
        try:
            await self._frames(response.content, frames)
        except TimeoutError:
            failure = self._give_up()
        except aiohttp.ClientError:
            failure = self._cut_off()
        rest, readings = frames.finish()
        self._meter.read(perf_counter(), readings)
        if frames.complete:
            self._settle_stream()
        else:
            failure = failure or self._cut_off()
            self._failed(failure)
            rest += failure.frame()
        await self._send({"type": "http.response.body", "body": rest})
        self._meter.answered(perf_counter())

    async def _frames(self, content: aiohttp.StreamReader, frames: StreamFilter) -> None:
        """Forwards every read at once. Raises TimeoutError when the engine falls silent."""
        settings = self._settings
        first_token_at = self._started + settings.first_token_timeout_s
        async with asyncio.timeout(None) as limit:
            while True:
                limit.reschedule(
                    self._loop.time() + settings.idle_timeout_s if self._meter.saw_token else first_token_at
                )
                data = await content.readany()
                now = perf_counter()
                # A client that reads slowly is no fault of the engine's.
                limit.reschedule(None)
                if not data:
                    return
                out, readings = frames.feed(data)
                self._meter.read(now, readings)
                if frames.complete:
                    # Many clients hang up on [DONE], which is no early leave.
                    self._settle_stream()
                if out:
                    await self._send({"type": "http.response.body", "body": out, "more_body": True})

    async def _whole(self, response: aiohttp.ClientResponse, raw: bytes) -> None:
        now = perf_counter()
        document: Any = None
        try:
            document = orjson.loads(raw)
        except orjson.JSONDecodeError:
            _log.warning("request %s: the engine's answer is not JSON; passed on as it is", self._plan.rid)
        if isinstance(document, dict):
            self._meter.read_whole(now, read_answer(document))
            raw = strip_answer(raw, document, self._plan.strip)
        else:
            self._meter.read_whole(now, UNREADABLE)
        self._meter.code = response.status
        self._settle("ok")
        await send_whole(self._send, response.status, raw, self._headers(response))
        self._meter.answered(perf_counter())

    async def _refusal(self, response: aiohttp.ClientResponse, raw: bytes) -> None:
        status = response.status
        if status >= 500:
            self._meter.upstream_error(f"http_{status}")
        headers = [header for header in self._headers(response) if header[0] != b"content-type"] + JSON
        if status in (429, 503) and "Retry-After" not in response.headers:
            headers.append((b"retry-after", str(self._settings.retry_after_s).encode()))
        self._meter.code = status
        self._settle("upstream_error" if status >= 500 else "client_error")
        await send_whole(self._send, status, openai_error(raw, status), headers)

    def _headers(self, response: aiohttp.ClientResponse) -> Headers:
        kept = [(name.lower(), value) for name, value in response.raw_headers]
        kept = [(name, value) for name, value in kept if name.decode("latin-1") not in _NOT_FORWARDED]
        return [*kept, (b"x-request-id", self._plan.rid.encode())]

    def _give_up(self) -> UpstreamTimeoutError:
        """What to tell the client. The engine may still be at work, so it is told to stop."""
        self._upstream.abort(self._plan.rid)
        settings = self._settings
        if not self._plan.stream:
            return UpstreamTimeoutError(
                f"The engine gave no answer within {settings.answer_timeout_s:g} s.", "answer_timeout"
            )
        if self._meter.saw_token:
            return UpstreamTimeoutError(f"The engine fell silent for {settings.idle_timeout_s:g} s.", "idle_timeout")
        return UpstreamTimeoutError(
            f"The engine gave no token within {settings.first_token_timeout_s:g} s.", "first_token_timeout"
        )

    def _cut_off(self) -> ClosedError:
        return ClosedError("The engine ended the answer before it was complete. Its log says why.", "closed_mid_answer")

    def _failed(self, error: UpstreamError) -> None:
        self._meter.upstream_error(error.kind)
        self._settle("upstream_error")
        _log.warning("request %s: %s", self._plan.rid, error.message)

    def _settle_stream(self) -> None:
        self._settle("upstream_error" if self._meter.engine_error else "ok")

    def _settle(self, outcome: Outcome) -> None:
        self._meter.finish(perf_counter(), outcome)
