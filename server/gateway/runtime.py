"""Everything an app holds while it runs; made and ended by its lifespan."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from starlette.types import Scope

from k25serve.server.gateway.admission.key_limits import KeyLimits
from k25serve.server.gateway.admission.slots import Slots
from k25serve.server.gateway.arms.arm import Arm
from k25serve.server.gateway.arms.breaker import Breaker
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.auth.gate import Gate
from k25serve.server.gateway.direct import Observations
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.errors import NotReadyError
from k25serve.server.gateway.loop_lag import watch_loop_lag
from k25serve.server.gateway.metrics import Metrics
from k25serve.server.gateway.probe import Probe
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.upstream import Upstream

if TYPE_CHECKING:
    from k25serve.server.gateway.conversations.recorder import Recorder
    from k25serve.server.gateway.experiment.live import Experiment


@dataclass(frozen=True, slots=True)
class Runtime:
    settings: GatewaySettings
    metrics: Metrics
    arms: tuple[Arm, ...]
    gate: Gate
    limits: KeyLimits
    drain: Drain
    created: int
    """Unix time of the start, seconds; `created` of every model."""
    experiment: "Experiment | None" = None
    recorder: "Recorder | None" = None
    _requests: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def not_ready_reason(self) -> str | None:
        """Why no arm can answer, in words for users; None if one can."""
        reasons = [arm.readiness.reason for arm in self.arms]
        if None in reasons:
            return None
        return "; ".join(
            f"{arm.name}: {reason}" if len(reasons) > 1 else str(reason)
            for arm, reason in zip(self.arms, reasons, strict=True)
        )

    def require_ready(self) -> None:
        """Raises NotReadyError unless an arm can answer."""
        reason = self.not_ready_reason
        if reason is not None:
            retry = self.settings.retry_after_s
            raise NotReadyError(f"Not ready: {reason}. Try again in {retry} s; GET /ready says when.", retry)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Marks the current task as one that still needs the runtime."""
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            yield
        finally:
            self._requests.discard(task)

    async def end_requests(self) -> None:
        """Waits until no task needs the runtime; the server has cancelled them, but doesn't wait itself."""
        await asyncio.gather(*self._requests, return_exceptions=True)


@contextlib.asynccontextmanager
async def open_runtime(
    settings: GatewaySettings, readiness: Readiness | None, registry: CollectorRegistry, drain: Drain
) -> AsyncIterator[Runtime]:
    """Starts a probe for each arm, but for the first one if a supervisor gave its `readiness`.

    Raises:
        ConfigError: the keys file can't be read, or the experiment's state file or the conversation log can't be used.
    """
    gate = Gate(settings.keys_file)
    metrics = Metrics(registry)
    async with contextlib.AsyncExitStack() as stack:
        arms: list[Arm] = []
        for one in settings.every_arm:
            arm = _arm(settings, one, metrics, None if arms else readiness)
            arms.append(arm)
            stack.push_async_callback(arm.upstream.close)
            if arm.readiness is not readiness:
                _run(stack, Probe(settings, one, arm.upstream, arm.readiness).run(), f"probe {one.name}")
        _run(stack, watch_loop_lag(metrics.loop_lag), "loop lag")
        if settings.keys_file is not None:
            stack.enter_context(_reloading(gate))
        limits = KeyLimits(settings.key_max_concurrency, settings.retry_after_s, settings.workers)
        experiment = None
        if settings.experiment is not None:
            from k25serve.server.gateway.experiment.live import running_experiment

            running = running_experiment(settings, settings.experiment, arms, drain, metrics)
            experiment = await stack.enter_async_context(running)
        recorder = None
        if settings.conversation_log is not None:
            from k25serve.server.gateway.conversations.recorder import running_recorder

            recording = running_recorder(settings, settings.conversation_log, metrics)
            recorder = await stack.enter_async_context(recording)
        created = int(time.time())
        runtime = Runtime(settings, metrics, tuple(arms), gate, limits, drain, created, experiment, recorder)
        stack.push_async_callback(runtime.end_requests)
        yield runtime


def runtime_of(scope: Scope) -> Runtime:
    """The app's runtime, which the server hands to every request."""
    runtime = scope["state"]["runtime"]
    assert isinstance(runtime, Runtime)
    return runtime


def _arm(
    settings: GatewaySettings,
    one: ArmSettings,
    metrics: Metrics,
    readiness: Readiness | None,
) -> Arm:
    readiness = readiness or Readiness(f"waiting for the engine at {one.url} to generate a token")
    readiness.show_on(metrics.arm_ready.labels(one.name))
    slots = Slots(
        max(1, one.max_concurrency // settings.workers),
        one.max_queue // settings.workers,
        settings.retry_after_s,
        metrics.queue_depth.labels(one.name),
    )
    breaker = Breaker(settings.breaker, metrics.breaker_state.labels(one.name))
    queue_wait = Observations(metrics.queue_wait.labels(one.name))
    return Arm(one, Upstream(settings, one, metrics), readiness, breaker, slots, queue_wait)


def _run(stack: contextlib.AsyncExitStack, work: Coroutine[Any, Any, None], name: str) -> None:
    task = asyncio.create_task(work, name=name)
    stack.push_async_callback(_cancel, task)


@contextlib.contextmanager
def _reloading(gate: Gate) -> Iterator[None]:
    """SIGHUP reads the keys again. Only a main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, gate.reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
