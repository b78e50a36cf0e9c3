"""`k25serve ab`, beside a gateway of two workers in a process of its own, before two simulated engines."""

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path

import aiohttp
import pytest
from command_line.call import call
from live_traffic.traffic import minutes, settings
from typer.testing import CliRunner

from k25serve.bench.engine_sim.server import running
from k25serve.server.ab import app
from k25serve.server.errors import ConfigError
from k25serve.server.gateway.experiment.comparison import SESSIONS
from k25serve.server.gateway.experiment.levels import FIRST_LOOK
from k25serve.server.gateway.experiment.store import BY_HAND, Batch, Stop, open_store

K25SERVE = Path(sys.executable).with_name("k25serve")
PROFILE = """
extends: cpu-tiny-nospec
name: mine
served_model_name: kimi
gateway:
  port: {port}
  workers: 2
  arms:
    - {{name: new, url: "{new}"}}
    - {{name: old, url: "{old}", dialect: vllm}}
  experiment:
    name: live
    state: {state}
    control: old
    weights: {{new: 1, old: 1}}
"""


def ab_here(*arguments):
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, list(map(str, arguments)))


async def ask(url, user):
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(base_url=url, connector=connector) as client:
        body = {"model": "kimi", "user": user, "stream": True, "messages": [{"role": "user", "content": "x"}]}
        async with client.post("/v1/chat/completions", json=body) as response:
            await response.read()
            return response.headers.get("x-k25serve-arm")


async def until(holds, seconds=40):
    async with asyncio.timeout(seconds):
        while True:
            try:
                if await holds():
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


async def test_a_live_gateway_heeds_a_stop(make_engine, tmp_path):
    engines = {"new": make_engine(), "old": make_engine(dialect="vllm")}
    async with running(engines["new"]) as new, running(engines["old"]) as old:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        profile = tmp_path / "mine.yaml"
        profile.write_text(PROFILE.format(port=port, new=new, old=old, state=tmp_path / "ab.db"))
        gateway = await asyncio.create_subprocess_exec(K25SERVE, "gateway", "--profile", profile)
        try:
            url = f"http://127.0.0.1:{port}"
            users = [f"u{i}" for i in range(16)]

            async def both():
                return {await ask(url, user) for user in users} == {"new", "old"}

            await until(both)
            dealt = {user: await ask(url, user) for user in users}
            status = call("ab", "status", "--profile", profile)
            assert "experiment live (ab), control old: running; a gateway is writing" in status.stdout
            stopped = call("ab", "stop", "--profile", profile)
            assert (stopped.returncode, stopped.stdout) == (0, "experiment live: everything goes to old\n")

            async def all_old():
                return {await ask(url, user) for user in users} == {"old"}

            await until(all_old, 15)
            # No worker is left behind.
            for _ in range(4):
                assert await all_old()
            assert set(dealt.values()) == {"new", "old"}
        finally:
            gateway.send_signal(signal.SIGTERM)
            assert await gateway.wait() == 0
    counted = json.loads(call("ab", "status", "--state", tmp_path / "ab.db", "--json").stdout)
    asked = {arm: sum(call.body.get("user") in users for call in engines[arm].record.calls) for arm in engines}
    assert {arm: totals["requests"] for arm, totals in counted["totals"].items()} == asked
    assert [(stop["arm"], stop["reason"]) for stop in counted["stops"]] == [("new", BY_HAND)]
    assert sum(counted["sessions"].values()) <= len(users)


def write(state, count, effect=0.0, stops=(), lost=False, **given):
    """A state file with so many minutes of traffic, a conversation of each arm in each."""
    given = settings(state=state, **given)
    store = open_store(given)
    rows = minutes(5, count, given, effect)
    sessions = [(2 * at + (arm == "b"), arm, at) for at, arm, _ in rows if not (lost and arm == "b" and at % 2)]
    store.write("w", Batch({(at, arm): tally.dump() for at, arm, tally in rows}, sessions), 60.0 * count)
    store.stop(stops)
    store.close()
    return state


def report(state):
    answer = ab_here("report", "--state", state, "--json")
    return answer.exit_code, json.loads(answer.stdout)


def test_a_difference_is_reported_as_a_ratio(tmp_path):
    code, told = report(write(tmp_path / "ab.db", 400, effect=0.1))
    (effect,) = told["effects"]
    assert (code, told["believable"], effect["arm"], effect["blocks"]) == (0, True, "b", 400)
    assert effect["adjusted"]["low"] < 1.105 < effect["adjusted"]["high"]
    assert FIRST_LOOK <= effect["found_at"] < 400
    assert effect["p_value"] < 0.05
    assert told["sentences"][0].startswith("b's time per output token differs from a's: +")
    shown = call("ab", "report", "--state", tmp_path / "ab.db")
    assert shown.returncode == 0
    assert told["sentences"][0] in shown.stdout
    assert f"{effect['adjusted']['ratio']:.3f}" in shown.stdout


def test_equal_arms_and_early_looks_are_told_as_what_they_are(tmp_path):
    code, told = report(write(tmp_path / "equal.db", 200))
    assert code == 0
    assert "no difference from a's found" in told["sentences"][0]
    assert "would have been found (power 0.8)" in told["sentences"][0]
    code, told = report(write(tmp_path / "early.db", 9))
    assert (code, told["sentences"]) == (0, ["b's time per output token: too early, 9 of at least 128 blocks."])
    assert told["effects"][0]["adjusted"]["high"] is None


def test_what_cannot_be_believed_has_an_exit_code(tmp_path):
    code, told = report(write(tmp_path / "aa.db", 400, effect=0.1, mode="aa"))
    assert code == 3
    assert told["sentences"][0].startswith("A/A failed: ")
    code, told = report(write(tmp_path / "lost.db", 400, lost=True))
    assert code == 3
    assert told["sentences"][0].startswith("The sample ratio is broken")


def test_minutes_after_a_stop_do_not_count(tmp_path):
    stop = Stop("b", 150 * 60.0, "error_share", "30 of 200 requests failed")
    _, told = report(write(tmp_path / "ab.db", 400, stops=[stop]))
    assert told["effects"][0]["blocks"] == 150
    assert told["sessions"] == {"a": 150, "b": 150}
    assert told["sentences"][-1] == "b gets no more requests since 1970-01-01 02:30:00 UTC: error_share: " + (
        "30 of 200 requests failed."
    )
    assert "only the control is left" in ab_here("status", "--state", tmp_path / "ab.db").stdout


@pytest.mark.parametrize("command", ["status", "report", "stop"])
def test_a_mistake_is_told(tmp_path, command):
    for arguments, told in (
        (("--state", tmp_path / "none.db"), "no such file"),
        ((), "give either --profile or --state"),
        (("--profile", "cpu-tiny"), "has no gateway.experiment"),
    ):
        answer = ab_here(command, *arguments)
        assert isinstance(answer.exception, ConfigError)
        assert told in str(answer.exception)


def test_the_simulated_traffic_makes_a_block_of_every_minute():
    assert all(tally.sums["tpot"].n >= SESSIONS for _, _, tally in minutes(0, 3, settings()))
