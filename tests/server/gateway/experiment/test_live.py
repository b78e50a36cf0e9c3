"""An experiment in a gateway before simulated engines."""

import asyncio
import sqlite3

import pytest

from k25serve.server.gateway.arms.choice import ARM_HEADER
from k25serve.server.gateway.experiment.store import BY_HAND, Stop, read_store, stop_store

SIM = {"accepted": [3, 3, 3, 3, 3], "step_s": 0.002, "pieces": ["a"]}
USERS = [f"user {i}" for i in range(30)]


@pytest.fixture
def stored():
    """Everything that the state file holds now."""

    def read(gateway):
        store = read_store(gateway.state)
        try:
            tallies = {}
            for _, arm, tally in store.tallies():
                if arm in tallies:
                    tallies[arm].merge(tally)
                else:
                    tallies[arm] = tally
            return tallies, store.sessions(before=2**40), store.stops()
        finally:
            store.close()

    return read


async def deal(gateway, ask, users=USERS):
    return {user: (await ask(gateway, user))[1] for user in users}


async def test_conversations_keep_their_arm_over_a_restart_and_what_was_counted_stays(two_arms, ask, stored):
    async with two_arms() as gateway:
        first = await deal(gateway, ask)
    async with two_arms() as gateway:
        assert await deal(gateway, ask) == first
    assert set(first.values()) == {"sglang", "vllm"}
    tallies, sessions, _ = stored(gateway)
    for arm in ("sglang", "vllm"):
        users = sum(given == arm for given in first.values())
        assert tallies[arm].counts.requests == 2 * users
        assert sum(one.get(arm, 0) for one in sessions) == users


async def test_salt_and_name_deal_anew_and_weights_are_the_shares(two_arms, ask, tmp_path):
    users = [f"u{i}" for i in range(60)]
    dealt = []
    changes = ({}, {"salt": "s"}, {"name": "y"}, {"weights": {"sglang": 1, "vllm": 1e-6}})
    for i, change in enumerate(changes):
        async with two_arms(change | {"state": tmp_path / f"{i}.db"}) as gateway:
            dealt.append(await deal(gateway, ask, users))
            share = 1e-6 if "weights" in change else 0.5
            assert await gateway.metric("experiment_weight", arm="vllm") == pytest.approx(share, rel=1e-3)
    assert len({tuple(one.values()) for one in dealt}) == 4
    assert set(dealt[3].values()) == {"sglang"}


async def test_a_request_is_measured_as_the_metrics_have_it(two_arms, ask, stored):
    async with two_arms({"min_output_tokens": 21}) as gateway:
        await ask(gateway, sim=SIM, max_tokens=100)
        await ask(gateway, sim=SIM | {"accepted": [3]}, max_tokens=100)
        await ask(gateway, stream=False, sim=SIM, max_tokens=100)
        await ask(gateway, headers={ARM_HEADER: "vllm"}, sim=SIM)
        arm = (await ask(gateway, sim={"fault": "bad_request"}))[1]
        assert await gateway.metric("experiment_requests_total", kind="measured") == 2
    (tally,) = stored(gateway)[0].values()
    assert (tally.counts.requests, tally.counts.ends, tally.counts.errors) == (3, 3, 0)
    assert {metric: sums.n for metric, sums in tally.sums.items()} == {"ttft": 1, "tpot": 1}
    # One session: log1p of its mean over two requests for ttft, of the long one alone for tpot.
    assert tally.sums["tpot"].x[2] == pytest.approx(3.0910424533583156)
    assert arm in ("sglang", "vllm")


async def test_a_failing_arm_loses_its_conversations_but_the_last_arm_does_not(two_arms, ask, stored, caplog):
    guardrails = {"min_requests": 20, "error_share": 0.1}
    async with two_arms({"guardrails": guardrails}) as gateway:
        first = await deal(gateway, ask)
        theirs = [user for user in USERS if first[user] == "vllm"]
        for i in range(60):
            if (await ask(gateway, theirs[i % len(theirs)], sim={"fault": "plain_500"}))[1] != "vllm":
                break
        await gateway.until("experiment_stopped", 1, arm="vllm", reason="error_share")
        assert set((await deal(gateway, ask)).values()) == {"sglang"}
        for _ in range(60):
            await ask(gateway, theirs[0], sim={"fault": "plain_500"})
        await asyncio.sleep(0.1)
        assert await gateway.metric("experiment_weight", arm="sglang") == 1
        assert (await ask(gateway, headers={ARM_HEADER: "vllm"}))[1] == "vllm"
    assert "experiment x: arm vllm gets no more requests: error_share: " in caplog.text
    async with two_arms({"guardrails": guardrails}) as gateway:
        assert set((await deal(gateway, ask)).values()) == {"sglang"}
    (stop,) = stored(gateway)[2]
    assert (stop.arm, stop.reason) == ("vllm", "error_share")


async def test_healthy_arms_are_left_alone(two_arms, ask, stored):
    guardrails = {"min_requests": 10, "error_share": 0.05, "ttft_p99_s": 30, "finish_excess": 0.2, "wasted_share": 0.5}
    async with two_arms({"guardrails": guardrails}) as gateway:
        for _ in range(3):
            await deal(gateway, ask)
        await asyncio.sleep(0.1)
    assert stored(gateway)[2] == []


async def test_stopped_by_hand_everything_goes_to_the_control(two_arms, ask):
    async with two_arms({"control": "vllm"}) as gateway:
        assert set((await deal(gateway, ask)).values()) == {"sglang", "vllm"}
        store = stop_store(gateway.state)
        store.stop([Stop("sglang", 1.0, BY_HAND, "test")])
        store.close()
        await gateway.until("experiment_weight", 1, arm="vllm")
        assert set((await deal(gateway, ask)).values()) == {"vllm"}


async def test_an_arm_that_is_down_moves_its_conversations_and_they_are_not_measured(two_arms, ask, stored):
    async with two_arms(upstream="http://127.0.0.1:9", breaker={"failures": 1000}) as gateway:
        assert set((await deal(gateway, ask)).values()) == {"vllm"}
    tallies, sessions, _ = stored(gateway)
    moved = tallies["sglang"].counts.errors
    assert 0 < moved == tallies["vllm"].counts.moved
    assert tallies["sglang"].sums == {}
    assert sum(one.get("vllm", 0) for one in sessions) == len(USERS) - moved


async def test_traffic_goes_on_while_the_file_cannot_be_written(two_arms, ask, stored, caplog):
    async with two_arms() as gateway:
        blocker = sqlite3.connect(gateway.state, isolation_level=None)
        blocker.execute("ALTER TABLE minutes RENAME TO gone")
        await deal(gateway, ask)
        await gateway.until("experiment_write_failures_total", 1)
        blocker.execute("ALTER TABLE gone RENAME TO minutes")
        blocker.close()
    assert caplog.text.count("can't write") == 1
    tallies, sessions, _ = stored(gateway)
    assert sum(tally.counts.requests for tally in tallies.values()) == len(USERS)
    assert sum(sum(one.values()) for one in sessions) == len(USERS)
