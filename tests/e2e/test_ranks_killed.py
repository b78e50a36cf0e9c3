"""Each kind of process of a two-rank engine is killed while it serves: nothing is left, and the next start serves."""

import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from e2e.pages import engine_log
from e2e.stack import Served, boot, free_ports, wait_gone

from k25serve.server.engine.holders import command_of
from k25serve.server.engine.shared_memory import FOLDER, told

pytestmark = [pytest.mark.engine, pytest.mark.full]
TWO_RANKS = ("serve", "-p", "cpu-tiny", "--set", "engine.tp=2")
VICTIMS = {
    "rank": ("sglang::scheduler_TP1", 1),
    "parent of the ranks": ("k25serve.patches.launch", 1),
    "guardian": ("k25serve.server.engine.guardian", 1),
    "launcher": ("k25serve serve", -signal.SIGKILL),
}


async def answered(served: Served) -> int:
    """Tokens of a chat."""
    body = {"model": "kimi-k2.5-tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.post(f"{served.gateway_url}/v1/chat/completions", json=body) as answer,
    ):
        return int((await answer.json())["usage"]["completion_tokens"])


def segments(served: Served) -> set[Path]:
    """Shared memory that the guardian noted."""
    (log,) = {Path(word) for word in served.said.split() if word.endswith(".log")}
    return {FOLDER / name for name in told([log])}


def free(ports: Sequence[int]) -> None:
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[int]]:
    """One state folder and one pair of ports for all, so that each start is the next one after a kill."""
    return tmp_path_factory.mktemp("killed"), free_ports(2)


@pytest.mark.parametrize("name", VICTIMS)
async def test_sigkill_leaves_nothing(name: str, place: tuple[Path, Sequence[int]]) -> None:
    (word, code), (folder, ports) = VICTIMS[name], place
    with boot(folder, *TWO_RANKS, at=ports) as served:
        assert await answered(served) > 0
        processes, noted = served.processes, segments(served)
        assert any(path.name.startswith("sgl_shm_") for path in noted), engine_log(served)[-2000:]
        victim = next(pid for pid in processes if word in command_of(pid))
        started = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        assert served.launcher.wait(60) == code
        wait_gone(processes, 60)
        print(
            f"{name}: ready after {served.ready_s:.0f} s; killed, all {len(processes)} gone after "
            f"{time.monotonic() - started:.1f} s, {len(noted)} segments of shared memory removed"
        )
        assert [path for path in noted if path.exists()] == []
        free(ports)
        assert code < 0 or "k25serve: error: the engine ended with" in served.said


async def test_the_start_after_them(place: tuple[Path, Sequence[int]]) -> None:
    """Last in this file."""
    folder, ports = place
    with boot(folder, *TWO_RANKS, at=ports) as served:
        assert await answered(served) > 0
        noted = segments(served)
    assert noted
    assert [path for path in noted if path.exists()] == []
    print(f"the start after them: ready after {served.ready_s:.0f} s; a stop leaves no shared memory either")
