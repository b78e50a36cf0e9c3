"""What stops a start is found before anything is started; a silent engine is told."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from k25serve.server.config import Profile, load_profile
from k25serve.server.engine import health
from k25serve.server.errors import ConfigError, PreflightError, UserError
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.serve import checked_settings, gateway_url


def profile(*overrides: str) -> Profile:
    return load_profile("cpu-tiny", ("gateway.port=31987", *overrides))


def test_plain_profile_passes() -> None:
    settings = checked_settings(profile(), own_engine=True)
    assert [arm.url for arm in settings.every_arm] == ["http://127.0.0.1:30000"]


def test_what_is_lossy_is_told_of_the_own_arm_alone() -> None:
    budget = "patches={lossy_expert_budget: {budget: 4}}"
    other = "{name: other, url: 'http://127.0.0.1:1', lossy: [fp4_cache]}"
    arms = {arm.name: arm for arm in checked_settings(profile(budget), own_engine=True).every_arm}
    assert arms["sglang"].lossy == ("lossy_expert_budget",)
    given = profile(budget, f"gateway.arms=[{{name: own, lossy: [by_hand]}}, {other}]")
    arms = {arm.name: arm for arm in checked_settings(given, own_engine=True).every_arm}
    assert arms["own"].lossy == ("lossy_expert_budget", "by_hand")
    assert arms["other"].lossy == ("fp4_cache",)
    assert all(arm.lossy == () for arm in checked_settings(profile(), own_engine=True).every_arm)


@pytest.mark.parametrize(
    ("override", "error", "told"),
    [
        ("gateway.keys_file=/nonexistent", ConfigError, "gateway.keys_file /nonexistent can't be read"),
        ("gateway.host=0.0.0.0", UserError, "there are no API keys"),
        ("gateway.arms=[{name: a, url: 'http://127.0.0.1:1'}]", ConfigError, "would get no request"),
        ("gateway.model_aliases=['a:b']", ConfigError, "a:b"),
        ("gateway.host=192.0.2.1", UserError, "192.0.2.1"),
    ],
)
def test_faults_of_the_gateway_come_first(override: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as caught:
        checked_settings(profile(override), own_engine=True)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_taken_gateway_port() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(PreflightError, match=rf"gateway\.port 127\.0\.0\.1:{port} cannot be opened"):
            checked_settings(profile(f"gateway.port={port}"), own_engine=True)


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:31987"), ("::", "http://[::1]:31987"), ("10.0.0.5", "http://10.0.0.5:31987")],
)
def test_clients_are_told_an_address_that_they_can_use(host: str, url: str) -> None:
    assert gateway_url(profile(f"gateway.host='{host}'")) == url


async def test_an_engine_that_falls_silent_is_told_and_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "INTERVAL_S", 0.01)
    status = 200
    app = web.Application()

    async def models(_: web.Request) -> web.Response:
        return web.Response(status=status)

    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    readiness = Readiness()
    readiness.set_ready()
    follow = asyncio.create_task(health.follow_health(f"http://127.0.0.1:{port}", readiness))

    async def until(ready: bool) -> None:
        for _ in range(500):
            if readiness.ready is ready:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"ready stayed {readiness.ready}")

    try:
        status = 503
        await until(False)
        assert "stopped answering" in (readiness.reason or "")
        status = 200
        await until(True)
    finally:
        follow.cancel()
        await asyncio.gather(follow, return_exceptions=True)
        await runner.cleanup()


def test_a_profile_file_serves_its_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"alice sha256:{'0' * 64}\n")
    settings = checked_settings(profile("gateway.host=0.0.0.0", f"gateway.keys_file={keys}"), own_engine=True)
    assert settings.keys_file == keys
