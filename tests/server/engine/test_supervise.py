"""An engine's life ends with its engine: nothing cuts the stop short, since the next engine needs its memory."""

import asyncio
from io import StringIO
from pathlib import Path

import pytest
from e2e.stack import free_ports
from rich.console import Console

from k25serve.server.config import load_profile
from k25serve.server.engine import supervise
from k25serve.server.engine.guardian import descendants

DRAINS = "trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.02; done"


async def test_cancelled_again_while_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(supervise, "engine_command", lambda profile: ["bash", "-c", DRAINS])
    (port,) = free_ports(1)
    profile, told = load_profile("cpu-tiny", [f"engine.port={port}"]), StringIO()
    up, pids = asyncio.Event(), []

    async def live() -> None:
        async with supervise.running_engine(profile, Console(file=told)) as engine:
            while "up" not in engine.log_tail():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            pids.append(engine.pid)
            up.set()
            await engine.wait()

    living = asyncio.create_task(live())
    async with asyncio.timeout(20):
        await up.wait()
    for _ in range(3):
        living.cancel()
        await asyncio.sleep(0.05)
    assert "engine: stopping" in told.getvalue()
    assert not living.done()
    assert descendants(pids[0])
    with pytest.raises(asyncio.CancelledError):
        await living
    assert descendants(pids[0]) == []
