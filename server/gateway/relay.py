"""The engine's answer on its way to the client."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from time import perf_counter
from typing import Any

import orjson
from starlette.types import Send

from k25serve.server.gateway.arms.arm import Arm
from k25serve.server.gateway.arms.choice import ARM_HEADER
from k25serve.server.gateway.connection import WireError
from k25serve.server.gateway.conversations.answer import AnswerParts
from k25serve.server.gateway.conversations.filter import RecordedFilter
from k25serve.server.gateway.dialect.answer import StreamRewriter, rewrite_answer
from k25serve.server.gateway.eager import begin
from k25serve.server.gateway.ended import Outcome
from k25serve.server.gateway.engine_errors import openai_error
from k25serve.server.gateway.errors import ClosedError, GatewayError, Headers, UpstreamError, UpstreamTimeoutError
from k25serve.server.gateway.lane import Lane
from k25serve.server.gateway.meter import RequestMeter
from k25serve.server.gateway.plan import Plan
from k25serve.server.gateway.reply import JSON, send_error, send_whole
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.stream import StreamFilter
from k25serve.server.gateway.strip import strip_answer
from k25serve.server.gateway.usage import UNREADABLE, read_answer
from k25serve.server.gateway.wire import Answer

_log = logging.getLogger(__name__)

# Hop-by-hop, or said anew by our own server.
_NOT_FORWARDED = frozenset(
    {
        b"connection",
        b"content-length",
        b"date",
        b"keep-alive",
        b"server",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-request-id",
    }
)
_ARM_HEADER = ARM_HEADER.encode()
LOSSY_HEADER = b"x-k25serve-lossy"
_STREAM_HEADERS: Headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


class Relay:
    """Asks one arm once and passes its answer on; ends with the client told, whatever happened.

    `trace`: the client's W3C trace headers, which go on to the engine. `record`: is told what the engine answers.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        arm: Arm,
        plan: Plan,
        meter: RequestMeter,
        send: Send,
        trace: Mapping[str, str],
        record: AnswerParts | None = None,
    ) -> None:
        self._settings = settings
        self._arm = arm
        self._upstream = arm.upstream
        self._trace = trace
        self._plan = plan
        self._meter = meter
        self._send = send
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._streaming = False
        self._frames: StreamFilter | None = None

    async def run(self, *, last: bool = True) -> bool:
        """Whether the client has its answer. Not so only if the arm failed before the first byte and isn't the `last`.

        Raises nothing but cancellation. The meter's books are closed before the client has its last byte.
        """
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
            if error.fails_over and not last:
                return False
            await send_error(self._send, error)
        return True

    async def stop(self, error: GatewayError) -> None:
        """Ends an answer that was cut short by cancelling run(), and tells the client if its form still allows it."""
        unanswered = self._meter.code is None
        self._meter.code = self._meter.code or error.status
        self._settle("cancelled")
        if unanswered:
            await send_error(self._send, error)
        elif self._streaming:
            await self._send({"type": "http.response.body", "body": error.frame()})

    async def _open(self) -> Answer:
        settings = self._settings
        limit_s = settings.first_token_timeout_s if self._plan.stream else settings.answer_timeout_s
        called_at = perf_counter()

        def sent() -> None:
            # What can be made ready while the engine works is.
            self._meter.called_engine(called_at)
            if self._plan.stream:
                self._frames = self._filter()

        breaker = self._arm.breaker
        breaker.begin()
        try:
            until = self._loop.time() + limit_s
            response = await self._upstream.open(self._plan.path, self._plan.body, self._trace, until, sent)
        except TimeoutError as error:
            breaker.failed()
            raise self._give_up() from error
        except UpstreamError:
            breaker.failed()
            raise
        except asyncio.CancelledError:
            breaker.undecided()
            raise
        breaker.succeeded()
        return response

    async def _pass_on(self, response: Answer) -> None:
        if response.status == 200 and response.content_type == "text/event-stream":
            await self._stream(response)
            return
        try:
            raw = await response.read(self._started + self._settings.answer_timeout_s)
        except TimeoutError as error:
            raise self._give_up() from error
        except WireError as error:
            raise self._cut_off() from error
        if response.status == 200:
            await self._whole(response, raw)
        else:
            await self._refusal(response, raw)

    async def _stream(self, response: Answer) -> None:
        self._meter.code = response.status
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": self._headers(response) + _STREAM_HEADERS,
            }
        )
        self._streaming = True
        frames = self._frames or self._filter()
        failure: UpstreamError | None = None
        last = b""
        try:
            last = await self._forward(response, frames)
        except TimeoutError:
            failure = self._give_up()
        except WireError:
            failure = self._cut_off()
        rest, readings = frames.finish(last)
        self._meter.read(perf_counter(), readings)
        if frames.complete:
            self._settle_stream()
        else:
            failure = failure or self._cut_off()
            self._failed(failure)
            rest += failure.frame()
        await self._send({"type": "http.response.body", "body": rest})
        self._meter.answered(perf_counter())

    async def _forward(self, response: Answer, frames: StreamFilter) -> bytes:
        """Forwards every read at once, but for the last. Raises TimeoutError when the engine falls silent."""
        meter, send = self._meter, self._send
        idle_s = self._settings.idle_timeout_s
        first_token_at = self._started + self._settings.first_token_timeout_s

        def hand_on(out: bytes) -> Awaitable[None] | None:
            return begin(send({"type": "http.response.body", "body": out, "more_body": True})) if out else None

        def forward(data: bytes) -> Awaitable[None] | None:
            now = perf_counter()
            out, readings = frames.feed(data)
            if frames.complete:
                # Many clients hang up on [DONE], which is no early leave.
                meter.read(now, readings)
                self._settle_stream()
                return hand_on(out)
            waits = hand_on(out)
            meter.read(now, readings)
            return waits

        lane = Lane.of(send)

        def through(read: bytes) -> bool:
            if lane is None or not frames.passes(read) or not lane.write(read):
                return False
            meter.read_tokens(perf_counter())
            return True

        def deadline(waiting_since: float) -> float:
            return waiting_since + idle_s if meter.saw_token else first_token_at

        told = frames.telling(through) if isinstance(frames, RecordedFilter) else through
        return await response.pump(forward, deadline, idle_s, told)

    async def _whole(self, response: Answer, raw: bytes) -> None:
        now = perf_counter()
        document: Any = None
        try:
            document = orjson.loads(raw)
        except orjson.JSONDecodeError:
            _log.warning("request %s: the engine's answer is not JSON; passed on as it is", self._plan.rid)
        if isinstance(document, dict):
            self._meter.read_whole(now, read_answer(document))
            raw = rewrite_answer(strip_answer(raw, document, self._plan.strip), document, self._plan.rules)
            if self._record is not None:
                self._record.whole(document)
        else:
            self._meter.read_whole(now, UNREADABLE)
        self._meter.code = response.status
        self._settle("ok")
        await send_whole(self._send, response.status, raw, self._headers(response))
        self._meter.answered(perf_counter())

    async def _refusal(self, response: Answer, raw: bytes) -> None:
        status = response.status
        if status >= 500:
            self._meter.upstream_error(f"http_{status}")
        headers = [header for header in self._headers(response) if header[0] != b"content-type"] + JSON
        if status in (429, 503) and response.header(b"retry-after") is None:
            headers.append((b"retry-after", str(self._settings.retry_after_s).encode()))
        self._meter.code = status
        self._settle("upstream_error" if status >= 500 else "client_error")
        await send_whole(self._send, status, openai_error(raw, status), headers)

    def _headers(self, response: Answer) -> Headers:
        kept = [header for header in response.headers if header[0] not in _NOT_FORWARDED]
        lossy = [(LOSSY_HEADER, ", ".join(names).encode())] if (names := self._arm.settings.lossy) else []
        return [*kept, (b"x-request-id", self._plan.rid.encode()), (_ARM_HEADER, self._arm.name.encode()), *lossy]

    def _filter(self) -> StreamFilter:
        rewriter = StreamRewriter(self._plan.rules)
        if self._record is not None:
            return RecordedFilter(self._plan.strip, rewriter, self._record)
        return StreamFilter(self._plan.strip, rewriter)

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
