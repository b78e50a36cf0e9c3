"""Units, through a systemctl that is a script: it keeps each unit's state in a file."""

import asyncio
from pathlib import Path

import pytest
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
