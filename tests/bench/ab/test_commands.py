"""`k25serve bench ab` as a user runs it."""

import asyncio
import os
import shlex
import socket
import sys
from pathlib import Path

from command_line.call import call
from load_records import stand_in
from load_records.engines import Turning, engine
from load_records.units import make_systemctl

from k25serve.bench.ab.result import AbData
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.load.records_file import read_records
from k25serve.bench.provenance import read, sha256

K25SERVE = Path(sys.executable).with_name("k25serve")
STAND_IN = Path(stand_in.__file__)
SMALL = ("--level", "2", "--class", "code", "--requests", "4", "--tokens", "12", "--samples", "2")


async def command(*words: str) -> tuple[int, str]:
    return await run(str(K25SERVE), "bench", "ab", *words)


async def run(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, told.decode()


async def test_a_unit_against_a_running_engine(tmp_path: Path) -> None:
    """The unit is production: it is started and stopped for its turns, and runs again in the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = f"{shlex.quote(sys.executable)} -P -m k25serve.bench.engine_sim --port {port} --step-s 0.001"
    pid = shlex.quote(str(tmp_path / "pid"))
    systemctl = make_systemctl(
        tmp_path,
        on_start=f"{serve} >/dev/null 2>&1 & echo $! > {pid}",
        on_stop=f"[ ! -e {pid} ] || {{ kill $(cat {pid}); rm {pid}; }}",
        prod="active",
    )
    unit = f"unit:prod@http://127.0.0.1:{port}"
    options = ("--pairs", "1", "--blocks", "2", "--systemctl", str(systemctl), "--results", str(tmp_path))
    async with running(engine(dialect="vllm")) as url:
        code, told = await command("--a", unit, "--b", url, *SMALL, *options, "--notes", "a test")
    pid_of_production = int((tmp_path / "pid").read_text())
    stopped = await asyncio.create_subprocess_exec("kill", str(pid_of_production))
    await stopped.wait()
    assert code == 0, told
    assert "order: A B, blocks in a turn: 2" in told
    assert "within these boots" in told
    actions = (tmp_path / "log").read_text().splitlines()
    assert actions == ["stop prod", "start --no-block prod", "stop prod", "start --no-block prod"]
    [path] = (tmp_path / "ab").glob("*.json")
    result = read(path)
    data = AbData.model_validate(result.data)
    assert (result.kind, result.notes) == ("ab", "a test")
    assert data.valid
    assert data.verdict in told
    assert [arm.kind for arm in data.arms] == ["unit", "url"]
    assert data.turns[0].boot_s > 0
    records = path.with_name(data.records_file)
    assert sha256(records) == data.records_sha256
    assert len(read_records(records)) == 2 * 2 * 4
    assert not list((tmp_path / "ab").glob("unfinished-*"))


async def test_a_stopped_run_puts_production_back(tmp_path: Path) -> None:
    """SIGTERM while the unit is started for its turn, and once more while it is put back."""
    systemctl = make_systemctl(tmp_path, on_start="kill -TERM $PPID", prod="active")
    arms = ("--a", "unit:prod@http://127.0.0.1:9", "--b", "http://127.0.0.1:9", *SMALL, "--blocks", "2")
    code, told = await command(*arms, "--systemctl", str(systemctl), "--results", str(tmp_path))
    assert code == 130, told
    assert "the same command goes on" in told
    assert "Traceback" not in told
    actions = (tmp_path / "log").read_text().splitlines()
    assert actions == ["stop prod", "start --no-block prod", "stop prod", "start --no-block prod"]
    assert (tmp_path / "prod.state").read_text() == "active\n"


async def test_an_engine_of_its_own_leaves_it_no_less_alert(tmp_path: Path) -> None:
    """The profile's engine took the signals while it stopped: they are the A/B's again in the unit's turn after it."""
    systemctl = make_systemctl(tmp_path, on_start="kill -TERM $PPID; kill -HUP $PPID", prod="active")
    arms = ("--a", "cpu-tiny", "--b", "unit:prod@http://127.0.0.1:9", *SMALL, "--blocks", "2", "--no-parity")
    options = ("--systemctl", str(systemctl), "--results", str(tmp_path))
    code, told = await run(sys.executable, str(STAND_IN), "ab", *arms, *options)
    assert code == 130, told
    assert "booted cpu-tiny" in told
    assert "Traceback" not in told
    actions = (tmp_path / "log").read_text().splitlines()
    assert actions == ["stop prod", "start --no-block prod", "stop prod", "start --no-block prod"]
    [left] = (tmp_path / "ab").glob("unfinished-*")
    assert sorted(os.listdir(left)) == ["turn-000.json"]


async def test_short_outputs_have_no_verdict(tmp_path: Path) -> None:
    broken = Turning(engine(SimOptions(cached_tokens=0, accepted=(1,))))
    async with running(engine()) as a, running(broken) as b:
        code, told = await command(
            "--a", a, "--b", b, *SMALL, "--pairs", "2", "--no-parity", "--results", str(tmp_path)
        )  # fmt: skip
    assert code == 1
    assert "INVALID, no verdict: short." in told
    assert "faster" not in told


def test_the_plan_alone() -> None:
    arms = ("--a", "cpu-tiny-nospec", "--b", "cpu-tiny")
    answer = call("bench", "ab", *arms, "--boot-minutes", "60", "--dry-run")
    assert answer.returncode == 0
    assert "across boots" in answer.stderr
    assert "about 8." in answer.stderr
    assert "alpha 0.05 shared by 12 comparisons" in answer.stderr


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9"
    for words, message in (
        (("--a", "", "--b", url), "--a is empty"),
        (("--a", url, "--b", "unit:x"), "--b unit:x: write unit:NAME@URL"),
        (("--a", url, "--b", url, "--pairs", "1"), "one unit has no spread"),
        (("--a", url, "--b", url, "--alpha", "nan"), "--alpha nan"),
        (("--a", url, "--b", url, "--systemctl", " "), "--systemctl is empty"),
        (("--a", url, "--b", url), "lists no model"),
        (("--a", "nosuch", "--b", url), "nosuch"),
    ):
        answer = call("bench", "ab", *words, "--results", tmp_path)
        assert (answer.returncode, answer.stdout) == (2, "")
        line = answer.stderr.splitlines()[-1]
        assert line.startswith("k25serve: error: ")
        assert message in line
