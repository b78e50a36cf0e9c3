"""Engine and gateway, together or each alone, until a signal or the end of the engine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from rich.console import Console

from k25serve.server.config import Profile
from k25serve.server.engine.preflight import check_port
from k25serve.server.engine.readiness import engine_url
from k25serve.server.errors import ConfigError, EngineFailed
from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.auth.exposure import check_exposure
from k25serve.server.gateway.auth.keys import read_keys
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.run import serve as run_gateway
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.workers.supervise import run_workers
from k25serve.server.notify import notify
from k25serve.server.signals import OR_CLOSED, listen, on_stop

if TYPE_CHECKING:
    from k25serve.server.engine.process import EngineProcess

# How the gateway is run, not what it does.
_NOT_SETTINGS = {"host", "port", "allow_unauthenticated", "drain_s", "drain_notice_s"}


async def serve(profile: Profile, console: Console, on_ready: Callable[[], Awaitable[bool]] | None = None) -> None:
    """Run both. The gateway answers at once, with 503 until the engine has generated a token.

    on_ready: awaited once the engine is ready; where it returns False, both stop.
    Raises EngineFailed when the engine ends by itself.
    """
    from k25serve.server.engine.health import follow_health
    from k25serve.server.engine.supervise import announce_ready, running_engine
    from k25serve.server.gate import AcceptanceGate

    settings = checked_settings(profile, own_engine=True)
    _say_recorded(settings, console)
    readiness, registry = Readiness(), CollectorRegistry()
    gate = AcceptanceGate(profile, console, registry)

    async def follow(engine: "EngineProcess") -> bool:
        await announce_ready(engine, profile, console)
        if gate.holds_readiness:
            await gate.run()
        readiness.set_ready()
        notify("READY=1", f"STATUS=serving on {gateway_url(profile)}")
        console.print(f"gateway: {gateway_url(profile)}/v1  metrics: {gateway_url(profile)}/metrics", highlight=False)
        if not gate.holds_readiness:
            await gate.run()
        if on_ready is not None and not await on_ready():
            return False
        await follow_health(engine_url(profile), readiness)
        return True

    async with (
        running_engine(profile, console) as engine,
        _gateway(profile, settings, readiness, registry) as gateway,
    ):
        try:
            await _until_stopped(follow(engine), _raise_when_ended(engine), gateway)
        finally:
            readiness.set_not_ready("stopping")


async def serve_engine(profile: Profile, console: Console) -> None:
    """Run the engine alone. Raises EngineFailed when it ends by itself."""
    from k25serve.server.engine.supervise import announce_ready, running_engine
    from k25serve.server.gate import AcceptanceGate

    gate = AcceptanceGate(profile, console)

    async def follow(engine: "EngineProcess") -> bool:
        await announce_ready(engine, profile, console)
        if gate.holds_readiness:
            await gate.run()
        notify("READY=1", f"STATUS=serving on {engine_url(profile)}")
        console.print(f"engine: {engine_url(profile)}/v1", highlight=False)
        if not gate.holds_readiness:
            await gate.run()
        return True

    async with running_engine(profile, console) as engine:
        await _until_stopped(follow(engine), _raise_when_ended(engine))


async def serve_gateway(profile: Profile, console: Console) -> None:
    """Run the gateway alone, before the engine at the profile's `engine.port`, which it probes until it answers."""
    settings = checked_settings(profile, own_engine=False)
    console.print(
        f"gateway: {gateway_url(profile)}/v1 before {engine_url(profile)}  metrics: {gateway_url(profile)}/metrics",
        highlight=False,
    )

    def listening(_port: int) -> None:
        notify("READY=1", f"STATUS=listening on {gateway_url(profile)}")

    _say_recorded(settings, console)
    async with _gateway(profile, settings, None, CollectorRegistry(), listening) as gateway:
        await _until_stopped(_true(), gateway)


def gateway_url(profile: Profile) -> str:
    """Where clients connect."""
    host = profile.gateway.host
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{profile.gateway.port}"


def gateway_settings(profile: Profile) -> GatewaySettings:
    """What the gateway takes from a profile."""
    given = profile.gateway.model_dump(exclude=_NOT_SETTINGS, exclude_none=True)
    # The engine that this profile describes comes first: it is the one whose start is followed from here.
    given_arms = sorted(given.pop("arms"), key=lambda arm: "url" in arm)
    own = {"url": engine_url(profile)}
    arms = [own | arm for arm in given_arms or [{"name": "sglang"}]]
    for arm in arms:
        if arm["url"] == own["url"]:
            arm["lossy"] = tuple(dict.fromkeys((*profile.lossy, *arm.get("lossy", ()))))
    try:
        return GatewaySettings(
            arms=tuple(ArmSettings(**arm) for arm in arms),
            served_model_name=profile.served_model_name,
            context_length=profile.context_length,
            **given,
        )
    except ValidationError as error:
        details = "; ".join(f"gateway.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigError(f"{details}. Mend the profile.") from error


def checked_settings(profile: Profile, *, own_engine: bool) -> GatewaySettings:
    """The gateway's settings, once everything that would stop it has been looked at: nothing is started before.

    own_engine: the profile's engine is started beside it, so one of the arms must be that one.
    """
    gateway, settings = profile.gateway, gateway_settings(profile)
    check_exposure(gateway.host, settings.keys_file, allow_unauthenticated=gateway.allow_unauthenticated)
    if settings.keys_file is not None:
        read_keys(settings.keys_file)
    if settings.experiment is not None:
        from k25serve.server.gateway.experiment.store import open_store

        open_store(settings.experiment).close()
    if settings.conversation_log is not None:
        from k25serve.server.gateway.conversations.directory import prepare_directory

        prepare_directory(settings.conversation_log.directory)
    if own_engine and settings.every_arm[0].url != engine_url(profile):
        raise ConfigError("gateway.arms: every arm has a url, so the engine started here would get no request")
    check_port("gateway.port", gateway.host, gateway.port)
    return settings


def _say_recorded(settings: GatewaySettings, console: Console) -> None:
    log = settings.conversation_log
    if log is not None:
        share = "" if log.sample == 1 else f" ({log.sample:.2%} of them)"
        where = log.directory.absolute()
        console.print(f"conversations are recorded{share}, in plain text: {where}", markup=False, highlight=False)


@contextlib.asynccontextmanager
async def _gateway(
    profile: Profile,
    settings: GatewaySettings,
    readiness: Readiness | None,
    registry: CollectorRegistry,
    listening: Callable[[int], None] | None = None,
) -> AsyncIterator["asyncio.Task[None]"]:
    gateway = profile.gateway
    if settings.workers > 1:
        running = run_workers(
            settings, gateway.host, gateway.port, listening, drain_s=gateway.drain_s, notice_s=gateway.drain_notice_s
        )
    else:
        drain = Drain()
        running = run_gateway(
            create_app(settings, readiness, registry=registry, drain=drain),
            gateway.host,
            gateway.port,
            listening,
            drain=drain,
            drain_s=gateway.drain_s,
            notice_s=gateway.drain_notice_s,
        )
    task = asyncio.create_task(running)
    try:
        yield task
    finally:
        # The first cancellation drains, a second ends the drain.
        task.cancel()
        with on_stop(task.cancel), contextlib.suppress(asyncio.CancelledError):
            await task


async def _until_stopped(follow: Coroutine[Any, Any, bool], *lasting: Awaitable[None]) -> None:
    """Await `follow`; if it says True, wait on. A signal ends the wait; so does anything of `lasting` that ends.

    A closed terminal (SIGHUP) is such a signal, unless the gateway has taken it for reading its keys again.
    """
    stop = asyncio.Event()
    listen(stop.set, OR_CLOSED)
    first = asyncio.create_task(follow)
    others = [asyncio.ensure_future(item) for item in (stop.wait(), *lasting)]
    try:
        await asyncio.wait([first, *others], return_when="FIRST_COMPLETED")
        if first.done() and not any(task.done() for task in others) and first.result():
            await asyncio.wait(others, return_when="FIRST_COMPLETED")
        for task in (first, *others):
            if task.done():
                task.result()
    finally:
        for task in (first, *others):
            task.cancel()
        await asyncio.gather(first, *others, return_exceptions=True)
        notify("STOPPING=1")


async def _raise_when_ended(engine: "EngineProcess") -> None:
    raise EngineFailed(engine.obituary(await engine.wait()))


async def _true() -> bool:
    return True
