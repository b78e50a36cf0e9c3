"""Everything an app holds while it runs; made and ended by its lifespan."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from starlette.types import Scope

from k25serve.server.gateway.metrics import Metrics
from k25serve.server.gateway.probe import Probe
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.upstream import Upstream, open_session


@dataclass(frozen=True, slots=True)
class Runtime:
    settings: GatewaySettings
    readiness: Readiness
    metrics: Metrics
    upstream: Upstream
    created: int
    """Unix time of the start, seconds; `created` of every model."""
    _requests: set[asyncio.Task[None]] = field(default_factory=set)

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
    settings: GatewaySettings, readiness: Readiness | None, registry: CollectorRegistry
) -> AsyncIterator[Runtime]:
    """Opens the session and, unless a supervisor gave its `readiness`, starts the probe."""
    metrics = Metrics(registry)
    async with open_session(settings.connect_timeout_s) as session, contextlib.AsyncExitStack() as stack:
        upstream = Upstream(settings, session, metrics)
        stack.push_async_callback(upstream.close)
        if readiness is None:
            readiness = Readiness(f"waiting for the engine at {settings.upstream} to generate a token")
            probe = asyncio.create_task(Probe(settings, upstream, readiness).run(), name="probe")
            stack.push_async_callback(_cancel, probe)
        runtime = Runtime(settings, readiness, metrics, upstream, created=int(time.time()))
        stack.push_async_callback(runtime.end_requests)
        yield runtime


def runtime_of(scope: Scope) -> Runtime:
    """The app's runtime, which the server hands to every request."""
    runtime = scope["state"]["runtime"]
    assert isinstance(runtime, Runtime)
    return runtime


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
