"""Units, through a systemctl that is a script: it keeps each unit's state in a file."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop
from load_records.units import make_systemctl

from k25serve.bench.ab.arms import parse_arm, up
from k25serve.bench.ab.systemd import Systemctl, restored, states
from k25serve.server.errors import UserError


async def test_units_are_left_as_they_were_found(tmp_path: Path) -> None:
    systemctl = Systemctl([str(make_systemctl(tmp_path, prod="active", other="inactive"))])
    found = await states(["prod", "other"], systemctl)
    assert found == {"prod": True, "other": False}

    async def run() -> None:
        async with restored(found, systemctl):
            await systemctl.stop("prod")
            await systemctl.start("other")
            raise RuntimeError("engine died")

    with pytest.raises(RuntimeError, match="engine died"):
        await run()
    assert await states(["prod", "other"], systemctl) == found
    assert (tmp_path / "log").read_text().splitlines()[-2:] == ["stop other", "start --no-block prod"]


async def test_units_come_back_when_the_run_is_cancelled(tmp_path: Path) -> None:
    systemctl = Systemctl([str(make_systemctl(tmp_path, prod="active"))])
    inside = asyncio.Event()

    async def run() -> None:
        async with restored({"prod": True}, systemctl):
            await systemctl.stop("prod")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await systemctl.is_active("prod")


@dataclass(frozen=True)
class Held:
    """Shell words for a systemctl that ends when it may."""

    folder: Path

    @property
    def words(self) -> str:
        return f"echo $$ > {self.folder}/new; mv {self.folder}/new {self.folder}/pid; read line < {self.folder}/gate"

    def begun(self) -> int:
        """Its process, once it is there."""
        path, deadline = self.folder / "pid", time.monotonic() + 20
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        pid = int(path.read_text())
        path.unlink()
        return pid

    def end(self) -> None:
        (self.folder / "gate").write_text("\n")


@pytest.fixture
def held(tmp_path: Path) -> Held:
    os.mkfifo(tmp_path / "gate")
    return Held(tmp_path)


def test_no_cancellation_is_lost_as_the_program_ends(tmp_path: Path, held: Held) -> None:
    """A signal and the program's end are told in one round of the event loop: each may come first."""
    systemctl = Systemctl([str(make_systemctl(tmp_path, on_stop=held.words, prod="active"))])

    def end(pid: int) -> None:
        held.end()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    async def cancelled(rounds: int) -> bool:
        task = asyncio.create_task(systemctl.stop("prod"))
        end(await asyncio.to_thread(held.begun))
        for _ in range(rounds):
            await asyncio.sleep(0)
        if asked := task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        return asked

    asked = [uvloop.run(cancelled(rounds)) for rounds in range(12)]
    assert asked[0]
    assert not asked[-1], "it had ended by then, so every round before that was tried"


async def test_a_start_is_ended_before_it_is_cancelled(tmp_path: Path, held: Held) -> None:
    """Else systemd would hear of it after the stop that follows."""
    ends = f"{held.words}; echo ended >> {tmp_path}/log"
    systemctl = Systemctl([str(make_systemctl(tmp_path, on_start=ends, prod="inactive"))])
    task = asyncio.create_task(systemctl.start("prod"))
    await asyncio.to_thread(held.begun)
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done()
    held.end()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "log").read_text().splitlines() == ["start --no-block prod", "ended"]


async def test_ctrl_c_of_the_program_alone_is_made_good(tmp_path: Path) -> None:
    once = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; echo active > $state; kill -INT $$; }}"
    systemctl = Systemctl([str(make_systemctl(tmp_path, on_stop=once, prod="active"))])
    await systemctl.stop("prod")
    assert (tmp_path / "log").read_text().splitlines() == ["stop prod", "stop prod"]
    assert not await systemctl.is_active("prod")


async def test_a_unit_that_can_t_be_put_back_keeps_no_other_from_it(tmp_path: Path) -> None:
    systemctl = Systemctl([str(make_systemctl(tmp_path, broken="failing", prod="inactive"))])
    back: list[bool] = []
    with pytest.raises(UserError, match="start --no-block broken: failed"):
        async with restored({"broken": True, "prod": True}, systemctl, lambda: back.append(True)):
            pass
    assert await systemctl.is_active("prod")
    assert back == [], "so that the next run tries again"
    async with restored({"prod": False}, systemctl, lambda: back.append(True)):
        pass
    assert back == [True]


async def test_a_unit_s_turn_is_a_fresh_start(tmp_path: Path) -> None:
    systemctl = Systemctl([str(make_systemctl(tmp_path, prod="active"))])
    arm = parse_arm("--a", "unit:prod@http://127.0.0.1:8000/v1")
    async with up(arm, _no_boot, systemctl) as endpoint:
        assert endpoint.chat == "http://127.0.0.1:8000/v1/chat/completions"
        assert await systemctl.is_active("prod")
    assert not await systemctl.is_active("prod")
    assert (tmp_path / "log").read_text().split("\n")[:2] == ["stop prod", "start --no-block prod"]


async def test_faults_name_the_unit_or_the_program(tmp_path: Path) -> None:
    systemctl = Systemctl([str(make_systemctl(tmp_path, prod="active", broken="failing"))])
    with pytest.raises(UserError, match="unit nosuch: not-found"):
        await systemctl.is_active("nosuch")
    with pytest.raises(UserError, match=r"start --no-block broken: failed .*journalctl -u broken"):
        await systemctl.start("broken")
    with pytest.raises(UserError, match="--systemctl /no/such: cannot be run"):
        await Systemctl(["/no/such"]).stop("prod")


@pytest.mark.parametrize("spec", ["unit:", "unit:x", "unit:@http://h", "unit:x@h:1", "", "  "])
def test_arms_that_are_none(spec: str) -> None:
    with pytest.raises(UserError, match=r"^--b"):
        parse_arm("--b", spec)


def test_kinds_of_arms() -> None:
    assert parse_arm("--a", "http://h/v1").kind == "url"
    assert parse_arm("--a", "cpu-tiny").kind == "profile"
    unit = parse_arm("--a", "unit:vllm.service@https://h:8000")
    assert (unit.kind, unit.name) == ("unit", "vllm.service")
    assert unit.endpoint is not None
    assert unit.endpoint.root == "https://h:8000"


def _no_boot(profile: str):
    raise AssertionError(f"{profile} is no profile")
