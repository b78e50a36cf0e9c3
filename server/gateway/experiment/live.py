"""An experiment inside a running gateway: deals conversations, counts what ends, heeds what was stopped."""

import asyncio
import contextlib
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from hashlib import blake2b

from k25serve.server.gateway.arms.arm import Arm
from k25serve.server.gateway.arms.choice import ARM_HEADER, conversation_key, rendezvous
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.ended import Ended
from k25serve.server.gateway.experiment.guards import tripped
from k25serve.server.gateway.experiment.metrics import ExperimentMetrics
from k25serve.server.gateway.experiment.settings import ExperimentSettings
from k25serve.server.gateway.experiment.shadow import ShadowCopies
from k25serve.server.gateway.experiment.store import Batch, Stop, Store, open_store
from k25serve.server.gateway.experiment.tally import Counts, OpenMinute
from k25serve.server.gateway.metrics import Metrics
from k25serve.server.gateway.plan import Request
from k25serve.server.gateway.settings import GatewaySettings

SYNC_S = 2.0
"""Between two looks at the state file: so late a stop is heeded, and so much is lost if the process is killed."""
_MINUTES_KEPT = 240
_SESSIONS_KEPT = 100_000

_log = logging.getLogger(__name__)


class Enrolment:
    """One request of a conversation. `order`: the arms that it prefers, its own first."""

    __slots__ = ("_experiment", "_request", "_session", "order")

    def __init__(self, experiment: "Experiment", request: Request, session: int, order: list[str]) -> None:
        self._experiment = experiment
        self._request = request
        self._session = session
        self.order = order

    def admitted(self, arm: str) -> Callable[[Ended], None]:
        """An arm is about to be asked; the meter of that attempt calls what this returns."""
        return self._experiment.admitted(self._request, self._session, arm, own=arm == self.order[0])


class Experiment:
    """Belongs to one event loop; the state file is read and written in a thread."""

    def __init__(
        self,
        gateway: GatewaySettings,
        settings: ExperimentSettings,
        arms: Sequence[Arm],
        drain: Drain,
        metrics: ExperimentMetrics,
        store: Store,
    ) -> None:
        self._sticky_header = gateway.sticky_header
        self._settings = settings
        self._arms = [arm.settings for arm in arms if arm.name in settings.weights]
        self._metrics = metrics
        self._store = store
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        # On a clock that can't step, so that no minute comes twice.
        self._clock_offset = time.time() - time.monotonic()
        self._open: dict[tuple[int, str], OpenMinute] = {}
        self._sessions: dict[int, tuple[int, str, int]] = {}
        self._running = dict.fromkeys(settings.weights, 0)
        self._stopped: dict[str, Stop] = {}
        self._writable = True
        self._shadow: ShadowCopies | None = None
        if settings.shadow is not None:
            arm = next(arm for arm in arms if arm.name == settings.shadow.arm)
            self._shadow = ShadowCopies(gateway, settings.shadow, arm, drain, metrics, settings.name, self._shadowed)
        self._heed(store.stops())

    def enrol(self, request: Request, headers: Mapping[str, str]) -> Enrolment | None:
        """The request's place in the experiment; None for one whose arm the staff chose."""
        if ARM_HEADER in headers:
            return None
        salt = f"{self._settings.name}\0{self._settings.salt}"
        key = conversation_key(request.body, headers.get(self._sticky_header))
        session = int.from_bytes(blake2b(salt.encode() + b"\0" + key, digest_size=8).digest(), signed=True)
        return Enrolment(self, request, session, rendezvous(key, salt, self._dealt))

    def admitted(self, request: Request, session: int, arm: str, *, own: bool) -> Callable[[Ended], None]:
        """See Enrolment.admitted. `own`: the arm is the conversation's."""
        load = self._running[arm]
        self._running[arm] += 1
        if own:
            if len(self._sessions) < _SESSIONS_KEPT:
                self._sessions.setdefault(session, (session, arm, self._minute()))
            if self._shadow is not None:
                self._shadow.offer(request, session)

        def ended(ended: Ended) -> None:
            self._running[arm] -= 1
            self._take(arm, ended, session, load, moved=not own)

        return ended

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the state file up to date while the block runs, and once more at its end."""
        await self._sync()
        ending = asyncio.Event()
        syncing = asyncio.create_task(self._keep_in_step(ending), name="experiment")
        try:
            async with self._shadow.running() if self._shadow is not None else contextlib.nullcontext():
                yield
        finally:
            # Not cancelled: a thread would go on with the file.
            ending.set()
            await syncing
            await asyncio.to_thread(self._store.close)

    def _shadowed(self, session: int, ended: Ended, load: int) -> None:
        assert self._settings.shadow is not None
        self._take(self._settings.shadow.arm, ended, session, load, moved=False)

    def _take(self, arm: str, ended: Ended, session: int, load: int, *, moved: bool) -> None:
        minute = self._open.setdefault((self._minute(), arm), OpenMinute(self._settings))
        measured = minute.take(ended, session, load, moved=moved)
        kind = "moved" if moved else "measured" if measured else "unmeasured"
        self._metrics.requests.labels(self._settings.name, arm, kind).inc()

    async def _keep_in_step(self, ending: asyncio.Event) -> None:
        while not ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SYNC_S):
                    await ending.wait()
            await self._sync()

    async def _sync(self) -> None:
        """Writes what was counted and heeds what was stopped. Traffic goes on whatever becomes of the file."""
        sessions, self._sessions = self._sessions, {}
        minutes = {key: minute.tally.dump() for key, minute in self._open.items()}
        minute = self._minute()
        try:
            stops = await asyncio.to_thread(self._exchange, Batch(minutes, list(sessions.values())), minute)
        except sqlite3.Error as error:
            self._metrics.write_failures.labels(self._settings.name).inc()
            if self._writable:
                _log.error("experiment %s: can't write %s: %s", self._settings.name, self._settings.state, error)
            self._writable = False
            self._sessions = sessions | self._sessions
            oldest = minute - _MINUTES_KEPT
        else:
            self._writable = True
            self._heed(stops)
            oldest = minute
        # What is older is whole and written, or too old to be kept.
        self._open = {key: one for key, one in self._open.items() if key[0] >= oldest}

    def _exchange(self, batch: Batch, minute: int) -> list[Stop]:
        """In a thread."""
        settings, store = self._settings, self._store
        now = time.time()
        store.write(self._worker, batch, now)
        stopped = {stop.arm for stop in store.stops()}
        windows: dict[str, Counts] = {}
        for _, arm, tally in store.tallies(minute - settings.guardrails.window_minutes + 1):
            if arm not in stopped:
                windows.setdefault(arm, Counts()).merge(tally.counts)
        trips = tripped(windows, settings.control, settings.guardrails)
        if trips:
            store.stop([Stop(trip.arm, now, trip.metric, trip.detail) for trip in trips], keep_one_of=settings.weights)
        return store.stops()

    def _heed(self, stops: Sequence[Stop]) -> None:
        name, weights = self._settings.name, self._settings.weights
        for stop in stops:
            if stop.arm not in self._stopped:
                _log.warning(
                    "experiment %s: arm %s gets no more requests: %s: %s", name, stop.arm, stop.reason, stop.detail
                )
                self._metrics.stopped.labels(name, stop.arm, stop.reason).set(1)
        self._stopped = {stop.arm: stop for stop in stops}
        live = {arm: weight for arm, weight in weights.items() if arm not in self._stopped}
        live = live or {self._settings.control: 1.0}
        self._dealt = [arm.model_copy(update={"weight": live.get(arm.name, 0.0)}) for arm in self._arms]
        for arm in weights:
            self._metrics.weight.labels(name, arm).set(live.get(arm, 0.0) / sum(live.values()))
        if self._shadow is not None and self._settings.shadow is not None:
            self._shadow.stopped = self._settings.shadow.arm in self._stopped

    def _minute(self) -> int:
        return int((time.monotonic() + self._clock_offset) // 60)


@contextlib.asynccontextmanager
async def running_experiment(
    gateway: GatewaySettings, settings: ExperimentSettings, arms: Sequence[Arm], drain: Drain, metrics: Metrics
) -> AsyncIterator[Experiment]:
    """Raises ConfigError: the state file; see open_store()."""
    store = await asyncio.to_thread(open_store, settings)
    experiment = Experiment(gateway, settings, arms, drain, ExperimentMetrics(metrics.registry), store)
    async with experiment.running():
        yield experiment
