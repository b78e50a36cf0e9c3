"""Segments of an engine's processes are removed at its end, whoever is killed; other files of /dev/shm stay."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k25serve.server.engine.guardian import descendants
from k25serve.server.engine.leftovers import reap
from k25serve.server.engine.process import EngineProcess
from k25serve.server.engine.shared_memory import FOLDER, WORD, mapped, told

# Maps the files that it is given, and a semaphore, as a rank does, and stays.
RANK = """
import mmap, multiprocessing, sys, time
held = multiprocessing.get_context("spawn").Lock()
files = [open(path, "w+b") for path in sys.argv[1:]]
for file in files:
    file.truncate(4096)
maps = [mmap.mmap(file.fileno(), 4096) for file in files]
print("mapped", flush=True)
time.sleep(300)
"""
# What SGLang's main process does: its children die with it, and nobody unlinks.
MAIN = "import subprocess, sys; sys.exit(subprocess.Popen([sys.executable, '-c', *sys.argv[1:]]).wait())"


@pytest.fixture
def names() -> Iterator[tuple[str, str]]:
    """A rank's segment, and a file that is none of the engine's."""
    found = (f"sgl_shm_mq_{os.getpid()}_k25", f"k25serve-test-weights-{os.getpid()}")
    yield found
    for name in found:
        (FOLDER / name).unlink(missing_ok=True)


async def started(log: Path, names: tuple[str, str]) -> EngineProcess:
    """An engine whose guardian has noted its segments."""
    paths = [str(FOLDER / name) for name in names]
    engine = await EngineProcess.start([sys.executable, "-c", MAIN, RANK, *paths], {}, log, 5)
    deadline = time.monotonic() + 20
    while not any(line.startswith(WORD) for line in engine.log_tail()):
        assert time.monotonic() < deadline, engine.log_tail()
        await asyncio.sleep(0.05)
    return engine


def semaphores(log: Path) -> list[Path]:
    return [FOLDER / name for name in told([log]) if name.startswith("sem.mp-")]


def left(names: tuple[str, str]) -> list[bool]:
    return [(FOLDER / name).exists() for name in names]


async def test_a_stop_removes_them(tmp_path: Path, names: tuple[str, str]) -> None:
    engine = await started(tmp_path / "log", names)
    assert left(names) == [True, True]
    (semaphore,) = semaphores(tmp_path / "log")
    assert await asyncio.to_thread(semaphore.exists)
    await engine.stop()
    assert left(names) == [False, True]
    assert not await asyncio.to_thread(semaphore.exists)


async def test_an_engine_that_ends_by_itself_leaves_none(tmp_path: Path, names: tuple[str, str]) -> None:
    engine = await started(tmp_path / "log", names)
    os.kill(descendants(engine.pid)[0], signal.SIGKILL)
    assert await engine.wait() == 128 + signal.SIGKILL
    assert left(names) == [False, True]
    await engine.stop()


async def test_the_next_start_removes_those_of_a_killed_guardian(tmp_path: Path, names: tuple[str, str]) -> None:
    log = tmp_path / "log"
    engine = await started(log, names)
    os.kill(engine.pid, signal.SIGKILL)
    await engine.wait()
    assert left(names) == [True, True]
    await asyncio.to_thread(reap, [log])
    assert left(names) == [False, True]
    await engine.stop()


def test_what_a_process_maps_now(names: tuple[str, str]) -> None:
    assert mapped([os.getpid()]).isdisjoint(names)
    assert mapped([2**22 + 1]) == set()


def test_only_names_of_segments_are_taken_from_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{WORD}sgl_shm_mq_1_a ../etc/passwd nccl-x/../y weights\nuser: {WORD}nccl-z\n")
    assert told([log, tmp_path / "none"]) == {"sgl_shm_mq_1_a"}
