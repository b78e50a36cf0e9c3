"""One generation request's life: body, check, slot, engine, answer; and the client may leave at any moment of it."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.types import Receive, Send

from k25serve.server.gateway.arms.arm import Arm
from k25serve.server.gateway.arms.choice import eligible
from k25serve.server.gateway.auth.keys import Caller
from k25serve.server.gateway.disconnect import ClientGoneError, read_body, unless_gone
from k25serve.server.gateway.errors import StoppingError
from k25serve.server.gateway.meter import LEFT_UNANSWERED, RequestMeter
from k25serve.server.gateway.metrics import Target
from k25serve.server.gateway.plan import Endpoint, Request, check_request, make_plan
from k25serve.server.gateway.relay import Relay
from k25serve.server.gateway.reply import send_error
from k25serve.server.gateway.runtime import Runtime

if TYPE_CHECKING:
    from k25serve.server.gateway.experiment.live import Enrolment

_LAST_WORD_S = 1.0
_TRACE = ("traceparent", "tracestate")
"""W3C trace context: the engine's spans join the client's trace."""


async def generate(
    runtime: Runtime, endpoint: Endpoint, caller: Caller, headers: Mapping[str, str], receive: Receive, send: Send
) -> None:
    """Serves one request. Cancelled, which the server does when its drain is over, it tells the client and ends.

    Raises:
        RejectedError: before the engine was asked and before anything was sent.
        ClientGoneError: the client left while it was still sending.
    """
    settings = runtime.settings
    runtime.require_ready()
    raw = await read_body(receive, settings.max_body_bytes)
    started = perf_counter()
    request = check_request(raw, endpoint, settings)
    enrolment = None if runtime.experiment is None else runtime.experiment.enrol(request, headers)
    order = None if enrolment is None else enrolment.order
    arms = eligible(runtime.arms, request.body, headers, settings, staff=caller.staff, order=order)
    trace = {name: headers[name] for name in _TRACE if name in headers}
    exchange = _Exchange(runtime, request, caller, trace, send, started, enrolment)
    with runtime.running(), runtime.limits.hold(caller):
        try:
            await unless_gone(exchange.run(arms), receive)
        except ClientGoneError:
            exchange.client_left()
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_S):
                    await exchange.stop()
        finally:
            exchange.close()


class _Exchange:
    """One request's attempts, one arm after the other until one gives an answer."""

    def __init__(
        self,
        runtime: Runtime,
        request: Request,
        caller: Caller,
        trace: Mapping[str, str],
        send: Send,
        started: float,
        enrolment: "Enrolment | None",
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._caller = caller
        self._trace = trace
        self._send = send
        self._started = started
        self._enrolment = enrolment
        self._queued_at: Arm | None = None
        self._arm: Arm | None = None
        self._rid = ""
        self._meter: RequestMeter | None = None
        self._relay: Relay | None = None

    async def run(self, arms: Sequence[Arm]) -> None:
        """Raises NoCapacityError, before anything was sent."""
        for arm in arms:
            last = arm is arms[-1]
            if not last and (arm.slots.full or not arm.available):
                continue
            await self._wait_for(arm)
            try:
                if await self._ask(arm, last=last):
                    return
            finally:
                arm.slots.release()
            self._runtime.metrics.failovers.labels(arm.name).inc()

    async def _wait_for(self, arm: Arm) -> None:
        self._queued_at = arm
        await arm.slots.acquire(self._caller.name, self._runtime.settings.queue_timeout_s)
        self._queued_at = None
        arm.queue_wait.observe(perf_counter() - self._started)

    async def _ask(self, arm: Arm, *, last: bool) -> bool:
        runtime = self._runtime
        plan = make_plan(self._request, arm.settings, runtime.settings)
        self._arm, self._rid = arm, plan.rid
        on_end = None if self._enrolment is None else self._enrolment.admitted(arm.name)
        record = None
        if runtime.recorder is not None:
            recording = runtime.recorder.begin(self._request, plan, arm.settings)
            if recording is not None:
                record, on_end = recording.answer, recording.also(on_end)
        self._meter = RequestMeter(
            runtime.metrics, plan.target, one_choice=plan.one_choice, started=self._started, on_end=on_end
        )
        self._relay = Relay(runtime.settings, arm, plan, self._meter, self._send, self._trace, record)
        return await self._relay.run(last=last)

    def client_left(self) -> None:
        """Counts the early leave and frees the engine; nothing of both if the answer was whole already."""
        if self._queued_at is not None:
            stream = "true" if self._request.stream else "false"
            target = Target(self._queued_at.name, self._runtime.settings.served_model_name, stream)
            children = self._runtime.metrics.bound(target)
            children.requests.add(1)
            children.responses(LEFT_UNANSWERED).add(1)
            children.disconnects("queued").add(1)
        elif self._meter is not None and self._arm is not None and not self._meter.finished:
            self._meter.finish(perf_counter(), "disconnected")
            self._arm.upstream.abort(self._rid)

    async def stop(self) -> None:
        """Tells the client that the gateway stops, and frees the engine."""
        error = StoppingError("The gateway is stopping. Send the request again.")
        if self._meter is None or self._relay is None or self._arm is None:
            await send_error(self._send, error)
        elif not self._meter.finished:
            self._arm.upstream.abort(self._rid)
            await self._relay.stop(error)

    def close(self) -> None:
        """Closes the books, which are open here only by a fault of the gateway's own."""
        if self._meter is not None:
            self._meter.finish(perf_counter(), "gateway_error")
