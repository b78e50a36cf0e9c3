"""`k25serve prove` as a user runs it: a stand-in for production under a stub of systemctl, simulated engines."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from load_records import stand_in
from load_records.units import make_systemctl
from typer.testing import CliRunner

from k25serve.bench.provenance import read, sha256
from k25serve.server.errors import UserError

STAND_IN = Path(stand_in.__file__)
SMALL = ("--class", "code", "--requests", "4", "--tokens", "24", "--level", "1", "--level", "2", "--total-level", "2")
LIMIT_S = 120.0
URL = "http://127.0.0.1:9"
WHOLE = ("--baseline-url", URL, "--profile", "cpu-tiny", "--output", "OUT")


@dataclass(frozen=True)
class Production:
    """A unit `prod` whose engine is a process of its own."""

    folder: Path
    port: int
    systemctl: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serves(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def arguments(self, output: Path) -> list[str]:
        unit = ("--baseline-unit", "prod", "--baseline-url", self.url, "--baseline-kv", "auto")
        speeds = ("--single", "1", "--total", "1", "--systemctl", str(self.systemctl))
        return [*unit, *speeds, *SMALL, "--output", str(output)]

    def actions(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines()[1:] if log.exists() else []  # the first is this test's own start


@pytest.fixture
def production(tmp_path: Path) -> Iterator[Production]:
    folder = tmp_path / "unit"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = (
        f"{shlex.quote(sys.executable)} -P -m k25serve.bench.engine_sim --port {port} --step-s 0.003 --prefill-s 0.002 "
        """--num-draft-tokens 0 --options '{"cached_tokens": 0}'"""
    )
    pid = shlex.quote(str(folder / "pid"))
    systemctl = make_systemctl(
        folder,
        on_start=f"{serve} >/dev/null 2>&1 & echo $! > {pid}",
        on_stop=f"[ ! -e {pid} ] || {{ kill $(cat {pid}); rm {pid}; }}",
        prod="inactive",
    )
    subprocess.run([systemctl, "start", "prod"], check=True)
    yield Production(folder, port, systemctl)
    subprocess.run([systemctl, "stop", "prod"], check=True)


async def start(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, STAND_IN, "prove", *words), stdin=subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )


async def command(*words: str) -> tuple[int | None, str]:
    process = await start(*words)
    async with asyncio.timeout(LIMIT_S):
        _, told = await process.communicate()
    return process.returncode, told.decode()


def refusal(*words: str) -> str:
    """What it says, in one line, instead of beginning. In this process, since nothing is begun."""
    done = CliRunner().invoke(stand_in.app, ["prove", *words])
    assert isinstance(done.exception, UserError), done.output
    assert done.exception.exit_code == 2
    assert "\n" not in str(done.exception)
    return str(done.exception)


async def signalled(when: str, number: signal.Signals, *words: str) -> tuple[int, str]:
    """Run until a line has `when` in it, send `number`; what was told, and a stand-in's engine ended if it was left."""
    process = await start(*words)
    assert process.stderr is not None
    told = ""
    async with asyncio.timeout(LIMIT_S):
        while when not in told:
            line = await process.stderr.readline()
            assert line, told
            told += line.decode()
        process.send_signal(number)
        told += (await process.stderr.read()).decode() if number != signal.SIGKILL else ""
        code = await process.wait()
    for pid in re.findall(r"booted \S+ as (\d+)", told):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return code, told


def finished(output: Path) -> dict[str, str]:
    """Steps that have ended, with the digest of their result."""
    steps = json.loads((output / "prove.json").read_text())["steps"]
    return {name: entry["sha256"] for name, entry in steps.items()}


def shape(output: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """What a campaign comes to, without its numbers: steps in order with their status, and the summary's headings."""
    steps = json.loads((output / "prove.json").read_text())["steps"]
    headings = [line for line in (output / "summary.md").read_text().splitlines() if line.startswith(("#", "| C"))]
    return [(name, entry["status"]) for name, entry in steps.items()], [re.sub(r"\d", "", line) for line in headings]


async def test_killed_twice_it_goes_on_and_production_serves_again(tmp_path: Path, production: Production) -> None:
    output, whole = tmp_path / "killed", tmp_path / "whole"
    words = [*production.arguments(output), "--profile", "cpu-tiny", "--yes"]

    code, told = await signalled("1 of 12 answers", signal.SIGKILL, *words)
    assert code == -signal.SIGKILL, told
    first = finished(output)
    assert "doctor-cpu-tiny" in first
    assert production.serves()

    code, told = await signalled("drafter gate of cpu-tiny ...", signal.SIGKILL, *words)
    assert code == -signal.SIGKILL, told
    assert "doctor for cpu-tiny: kept from before" in told
    assert "doctor for cpu-tiny ..." not in told
    second = finished(output)
    assert set(second) == {"doctor-cpu-tiny", "sweep-baseline", "trace-baseline", "comm"}
    assert second["doctor-cpu-tiny"] == first["doctor-cpu-tiny"]
    assert production.actions() == ["stop prod"]

    code, told = await command(*words)
    assert code == 0, told
    for title in ("doctor for cpu-tiny", "sweep of baseline", "trace of baseline", "links"):
        assert f"{title}: kept from before" in told
        assert f"{title} ..." not in told
    third = finished(output)
    assert {name: third[name] for name in second} == second
    assert production.actions() == ["stop prod", "start --no-block prod"]

    code, told = await command(*production.arguments(whole), "--profile", "cpu-tiny", "--yes")
    assert code == 0, told
    assert shape(output) == shape(whole)
    assert production.actions()[2:] == ["stop prod", "start --no-block prod"]
    assert (production.folder / "prod.state").read_text() == "active\n"

    code, told = await command(*words)
    assert code == 0, told
    assert " ..." not in told
    assert finished(output) == third
    [path] = (output / "results" / "prove").glob("*.json")
    [verdict] = read(path).data["verdicts"]
    assert verdict["sentence"] in (output / "summary.md").read_text()
    assert [one["met"] for one in verdict["criteria"]] == [True, True, True]
    assert verdict["gains"][0]["tpot"] > 1
    assert verdict["sentence"] in (output / "report.md").read_text()
    assert (output / "report.html").stat().st_size > 0


async def test_restore_alone(tmp_path: Path, production: Production) -> None:
    output = tmp_path / "out"
    words = [*production.arguments(output), "--profile", "cpu-tiny", "--yes"]
    await signalled("booted cpu-tiny", signal.SIGKILL, *words)
    assert production.actions() == ["stop prod"]
    before = finished(output)
    code, told = await command("--restore", str(output))
    assert code == 0, told
    assert production.actions() == ["stop prod", "start --no-block prod"]
    assert finished(output) == before
    code, told = await command("--restore", str(output))
    assert (code, "nothing to put back" in told) == (0, True)
    assert len(production.actions()) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full), signal.SIGHUP])
async def test_a_signal_puts_production_back(tmp_path: Path, production: Production, number: signal.Signals) -> None:
    output = tmp_path / "out"
    words = [*production.arguments(output), "--profile", "cpu-tiny", "--yes"]
    code, told = await signalled("drafter gate of cpu-tiny ...", number, *words)
    assert code == 130, told
    assert "the same command goes on" in told
    assert "Traceback" not in told
    assert production.actions() == ["stop prod", "start --no-block prod"]
    assert "gate-cpu-tiny" not in finished(output)


async def test_a_failure_puts_production_back(tmp_path: Path, production: Production) -> None:
    output = tmp_path / "out"
    code, told = await command(*production.arguments(output), "--profile", "cpu-tiny-ngram", "--yes")
    assert code == 1, told
    assert "k25serve: error: engine: ended with exit code 1" in told
    assert production.actions() == ["stop prod", "start --no-block prod"]
    assert "comm" in finished(output)


async def test_a_result_that_was_changed_is_made_again(tmp_path: Path, production: Production) -> None:
    output = tmp_path / "out"
    words = [*production.arguments(output), "--profile", "cpu-tiny-nospec", "--yes"]
    code, told = await command(*words)
    assert code == 0, told
    assert "skipped: the profile does not speculate" in told
    before = finished(output)
    [doctor] = (output / "results" / "doctor").glob("*.json")
    doctor.unlink()
    code, told = await command(*words)
    assert code == 0, told
    assert "doctor for cpu-tiny-nospec ..." in told
    assert "sweep of baseline: kept" in told
    after = finished(output)
    assert after["sweep-baseline"] == before["sweep-baseline"]
    assert all(sha256(path) for path in output.rglob("*.json"))


async def test_what_is_refused(tmp_path: Path, production: Production) -> None:
    output = tmp_path / "out"
    base = [*production.arguments(output), "--profile", "cpu-tiny"]
    assert "prod: will be stopped; pass --yes" in refusal(*base)
    assert not (output / "prove.json").exists()
    code, told = await signalled("1 of 12 answers", signal.SIGTERM, *base, "--yes")
    assert code == 130, told
    assert "holds another campaign (tokens 24 there, 32 now)" in refusal(*base, "--yes", "--tokens", "32")
    (output / "prove.json").write_text("{}")
    assert "configuration: no journal of this version" in refusal(*base, "--yes")
    assert production.actions() == []


async def test_one_campaign_at_a_time(tmp_path: Path, production: Production) -> None:
    words = [*production.arguments(tmp_path / "out"), "--profile", "cpu-tiny", "--yes"]
    process = await start(*words)
    assert process.stderr is not None
    while b"sweep of baseline" not in await process.stderr.readline():
        pass
    assert "another `prove` is at work there" in refusal(*words)
    process.terminate()
    await process.stderr.read()
    assert await process.wait() == 130


def test_steps_and_hours_alone(tmp_path: Path) -> None:
    words = ("--baseline-unit", "prod", "--baseline-url", URL, "--profile", "cpu-tiny", "--profile", "cpu-tiny-ngram")
    more = ("--output", str(tmp_path / "out"), "--boot-minutes", "60", "--dry-run")
    done = CliRunner().invoke(stand_in.app, ["prove", *words, *more])
    assert done.exit_code == 0, done.output
    told = done.stderr
    assert told.count("60 min (--boot-minutes)") == 2
    assert "prod is stopped from the links' step" in told
    assert "about 2." in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--baseline-url", URL, "--profile", "cpu-tiny"), "--output is missing"),
        (("--profile", "cpu-tiny", "--output", "OUT"), "no baseline: pass --baseline-url"),
        (("--baseline-url", URL, "--output", "OUT"), "--profile (none)"),
        (("--baseline-url", "ftp://x", *WHOLE[2:]), "--baseline-url ftp://x"),
        ((*WHOLE, "--profile", "cpu-tiny"), "--profile cpu-tiny, cpu-tiny"),
        ((*WHOLE, "--profile", URL), "http://127.0.0.1:9' not found"),
        ((*WHOLE[:2], "--profile", "nosuch", *WHOLE[4:]), "nosuch"),
        ((*WHOLE, "--single", "nan"), "--single nan"),
        ((*WHOLE, "--single", "0"), "--single 0"),
        ((*WHOLE, "--total", "-1"), "--total -1"),
        ((*WHOLE, "--tpot-ms", "inf"), "--tpot-ms inf"),
        ((*WHOLE, "--boot-minutes", "inf"), "--boot-minutes inf"),
        ((*WHOLE, "--level", "0"), "--level 0"),
        ((*WHOLE, "--class", "nosuch"), "--class nosuch"),
        ((*WHOLE, "--calibration", "nosuch"), "--calibration nosuch"),
        ((*WHOLE, "--systemctl", " "), "--systemctl is empty"),
        ((*WHOLE[:4], "--output", "/proc/out"), "--output /proc/out"),
        (("--restore", "OUT"), "no campaign there"),
        ((*WHOLE, "--baseline-unit", "none", "--yes", "--systemctl", "/nosuch"), "--systemctl /nosuch: cannot be run"),
        (WHOLE, "lists no model"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    output = str(tmp_path / "out")
    assert message in refusal(*(output if word == "OUT" else word for word in words))
