"""Copies of requests for an arm whose answers nobody gets.

Offering a copy costs the request two comparisons and never a wait: copies stand in a bounded queue, what finds no room
is dropped and counted, and the arm's connections and tasks are its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import orjson

from k25serve.server.gateway.arms.arm import Arm
from k25serve.server.gateway.connection import WireError
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.ended import Ended, Outcome
from k25serve.server.gateway.errors import GatewayError
from k25serve.server.gateway.experiment.metrics import ExperimentMetrics
from k25serve.server.gateway.experiment.settings import Shadow
from k25serve.server.gateway.plan import Plan, Request, make_plan
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.stream import StreamFilter
from k25serve.server.gateway.usage import UNREADABLE, Reading, Usage, read_answer
from k25serve.server.gateway.wire import Answer

SESSIONS = 1 << 64
"""Conversations are numbers below it."""


class _Copy(NamedTuple):
    request: Request
    session: int


class ShadowCopies:
    """`ended` is told the conversation, how its copy ended, and how many others were at the arm when it began."""

    def __init__(
        self,
        settings: GatewaySettings,
        shadow: Shadow,
        arm: Arm,
        drain: Drain,
        metrics: ExperimentMetrics,
        experiment: str,
        ended: Callable[[int, Ended, int], None],
    ) -> None:
        self._settings = settings
        self._shadow = shadow
        self._arm = arm
        self._drain = drain
        self._ended = ended
        self._queue: asyncio.Queue[_Copy] = asyncio.Queue(shadow.max_queue)
        self._bytes = 0
        self._running = 0
        self._copies = metrics.shadow_copies
        self._labels = (experiment, arm.name)
        self._depth = metrics.shadow_queue.labels(*self._labels)
        self.stopped = False

    def offer(self, request: Request, session: int) -> None:
        """Takes a copy, if the conversation is one of those that are copied and there is room."""
        if self.stopped or session % SESSIONS >= self._shadow.share * SESSIONS:
            return
        if self._drain.active:
            self._count("dropped_stopping")
        elif not self._arm.readiness.ready:
            self._count("dropped_not_ready")
        elif self._queue.full() or self._bytes + len(request.raw) > self._shadow.max_queue_bytes:
            self._count("dropped_full")
        else:
            self._bytes += len(request.raw)
            self._queue.put_nowait(_Copy(request, session))
            self._depth.set(self._queue.qsize())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Asks the arm while the block runs; ends with what is under way cancelled, at the engine too."""
        tasks = [
            asyncio.create_task(self._work(), name=f"shadow {self._arm.name} {i}")
            for i in range(self._shadow.max_concurrency)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._copies.labels(*self._labels, "dropped_stopping").inc(self._queue.qsize())
            self._depth.set(0)

    async def _work(self) -> None:
        while True:
            copy = await self._queue.get()
            self._bytes -= len(copy.request.raw)
            self._depth.set(self._queue.qsize())
            load = self._running
            self._running += 1
            try:
                ended = await self._ask(copy.request)
            except asyncio.CancelledError:
                self._count("cancelled")
                raise
            finally:
                self._running -= 1
            self._count("ok" if ended.outcome == "ok" else "failed")
            self._ended(copy.session, ended, load)

    async def _ask(self, request: Request) -> Ended:
        reader: _Reader | None = None
        outcome: Outcome = "upstream_error"
        try:
            plan = make_plan(request, self._arm.settings, self._settings)
            reader = _Reader(plan)
            outcome = await self._read(plan, reader)
        except (GatewayError, WireError, TimeoutError):
            if reader is not None:
                self._arm.upstream.abort(plan.rid)
        except asyncio.CancelledError:
            if reader is not None:
                self._arm.upstream.abort(plan.rid)
            raise
        return Ended(outcome, None, None, None, 0, None, False) if reader is None else reader.ended(outcome)

    async def _read(self, plan: Plan, reader: "_Reader") -> Outcome:
        until = asyncio.get_running_loop().time() + self._shadow.timeout_s
        answer = await self._arm.upstream.open(plan.path, plan.body, {}, until, lambda: None)
        try:
            return await reader.read(answer, until)
        finally:
            answer.close()

    def _count(self, result: str) -> None:
        self._copies.labels(*self._labels, result).inc()


class _Reader:
    """Measures an answer and lets it go. Its clock starts when the arm is asked."""

    def __init__(self, plan: Plan) -> None:
        self._frames = StreamFilter(plan.strip)
        self._one_choice = plan.one_choice
        self._started = perf_counter()
        self._first: float | None = None
        self._last = 0.0
        self._usage: Usage | None = None
        self._finish: str | None = None

    async def read(self, answer: Answer, until: float) -> Outcome:
        """Raises TimeoutError and WireError."""
        if answer.status == 200 and answer.content_type == "text/event-stream":
            self._take(await answer.pump(self._take, lambda _: until, until))
            self._read(perf_counter(), self._frames.finish()[1])
            return "ok" if self._frames.complete else "upstream_error"
        raw = await answer.read(until)
        if answer.status != 200:
            return "upstream_error" if answer.status >= 500 else "client_error"
        whole = _whole(raw)
        self._usage, self._finish = whole.usage, whole.finish
        return "ok"

    def ended(self, outcome: Outcome) -> Ended:
        first = self._first
        return Ended(
            outcome=outcome,
            ttft=None if first is None else first - self._started,
            decode=None if first is None else self._last - first,
            usage=self._usage,
            wasted=0,
            finish=self._finish,
            one_choice=self._one_choice,
        )

    def _take(self, data: bytes) -> None:
        self._read(perf_counter(), self._frames.feed(data)[1])

    def _read(self, now: float, readings: Sequence[Reading]) -> None:
        for reading in readings:
            if reading.tokens:
                self._first = self._first or now
                self._last = now
            self._usage = reading.usage or self._usage
            self._finish = reading.finish or self._finish


def _whole(raw: bytes) -> Reading:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return UNREADABLE
    return read_answer(document) if isinstance(document, dict) else UNREADABLE
