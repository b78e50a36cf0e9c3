"""No process of an engine outlives its launcher, whatever ends either of them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.stack import running, wait_gone

from k25serve.server.engine.guardian import descendants
from k25serve.server.engine.process import EngineProcess

# A parent and children that ignore SIGTERM; one is a session leader of its own, so no process group holds it.
STUBBORN = "trap '' TERM; (trap '' TERM; sleep 300) & setsid bash -c \"trap '' TERM; sleep 300\" & echo up; wait"

LAUNCHER = """
import asyncio, sys
from pathlib import Path
from k25serve.server.engine.process import EngineProcess
async def main():
    engine = await EngineProcess.start(["bash", "-c", sys.argv[2]], {}, Path(sys.argv[1]), 0.3)
    print(engine.pid, flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


def wait_for_tree(root: int, size: int) -> list[int]:
    deadline = time.monotonic() + 10
    while len(found := descendants(root)) < size:
        assert time.monotonic() < deadline, f"only {found} below {root}"
        time.sleep(0.02)
    return found


def wait_for_line(engine: EngineProcess, line: str) -> None:
    deadline = time.monotonic() + 10
    while line not in engine.log_tail():
        assert time.monotonic() < deadline, f"{line!r} was never logged"
        time.sleep(0.02)


async def start(tmp_path: Path, script: str, stop_seconds: float = 0.3) -> EngineProcess:
    return await EngineProcess.start(["bash", "-c", script], {"MARK": "here"}, tmp_path / "log", stop_seconds)


async def test_stop_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    engine = await start(tmp_path, STUBBORN)
    tree = await asyncio.to_thread(wait_for_tree, engine.pid, 3)
    assert await engine.stop() == 128 + signal.SIGKILL
    assert running(tree) == []


async def test_a_second_stop_ends_the_drain(tmp_path: Path) -> None:
    engine = await start(tmp_path, STUBBORN, stop_seconds=300)
    tree = await asyncio.to_thread(wait_for_tree, engine.pid, 3)
    await asyncio.to_thread(wait_for_line, engine, "up")
    stopping = asyncio.create_task(engine.stop())
    await asyncio.sleep(0.5)
    assert not stopping.done()
    engine.hurry()
    assert await stopping == 128 + signal.SIGKILL
    assert running(tree) == []


async def test_obituary_tells_how_it_ended_and_where_to_read(tmp_path: Path) -> None:
    engine = await start(tmp_path, "echo out of memory; exit 3")
    told = engine.obituary(await engine.wait())
    assert "ended with exit code 3" in told
    assert str(tmp_path / "log") in told
    assert "    out of memory" in told
    assert "killed by signal 9" in engine.obituary(-9)
    await engine.stop()


async def test_the_obituary_begins_with_the_start_modules_own_word(tmp_path: Path) -> None:
    """SGLang says a good deal after it, errors too."""
    script = "echo 'k25serve: error: patch x: it is gone'; for n in $(seq 40); do echo \"Error $n\"; done; exit 1"
    engine = await start(tmp_path, script)
    told = engine.obituary(await engine.wait())
    assert told.startswith("the engine ended with exit code 1: patch x: it is gone; its log is ")
    await engine.stop()


async def test_stop_lets_the_engine_drain(tmp_path: Path) -> None:
    engine = await start(tmp_path, "trap 'echo drained; exit 0' TERM; echo up; while :; do sleep 0.05; done", 10)
    await asyncio.to_thread(wait_for_line, engine, "up")
    assert await engine.stop() == 0
    assert engine.log_tail() == ["up", "drained"]


async def test_orphans_die_when_the_engine_ends_by_itself(tmp_path: Path) -> None:
    engine = await start(tmp_path, "(setsid sleep 300 &); sleep 0.5; exit 7")
    tree = await asyncio.to_thread(wait_for_tree, engine.pid, 2)
    assert await engine.wait() == 7
    assert running(tree) == []
    assert await engine.stop() == 7


async def test_environment_and_log(tmp_path: Path) -> None:
    engine = await start(tmp_path, 'echo "$MARK"; echo problem >&2; seq 100')
    assert await engine.wait() == 0
    await engine.stop()
    assert (tmp_path / "log").read_text().splitlines()[:2] == ["here", "problem"]
    assert engine.log_tail(2) == ["99", "100"]


@pytest.mark.parametrize("victim", ["launcher", "guardian"])
def test_sigkill_leaves_nothing(tmp_path: Path, victim: str) -> None:
    command = [sys.executable, "-P", "-c", LAUNCHER, str(tmp_path / "log"), STUBBORN]
    bystander = subprocess.Popen(["sleep", "300"])
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    tree: list[int] = []
    try:
        assert launcher.stdout is not None
        guardian = int(launcher.stdout.readline())
        tree = wait_for_tree(guardian, 3)
        if victim == "launcher":
            launcher.kill()
            wait_gone([guardian, *tree], 10)
        else:
            # The kernel kills the engine's main process; SGLang's own children ask for the same, bash's do not.
            os.kill(guardian, signal.SIGKILL)
            wait_gone([guardian, tree[0]], 10)
        assert bystander.poll() is None
    finally:
        for process in (launcher, bystander):
            process.kill()
            process.communicate()
        for pid in running(tree):
            os.kill(pid, signal.SIGKILL)


async def test_what_a_killed_guardian_leaves_is_killed_by_the_launcher(tmp_path: Path) -> None:
    """F01: they ignore SIGTERM, one has a session of its own, and init adopted them."""
    engine = await start(tmp_path, STUBBORN)
    tree = await asyncio.to_thread(wait_for_tree, engine.pid, 3)
    await asyncio.to_thread(wait_for_line, engine, "up")
    os.kill(engine.pid, signal.SIGKILL)
    assert await engine.wait() == -signal.SIGKILL
    await engine.stop()
    assert running(tree) == []
