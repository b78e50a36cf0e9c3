"""Copies for an arm whose answers nobody gets."""

import asyncio
import time

from k25serve.server.gateway.experiment.store import BY_HAND, Stop, read_store, stop_store

SHADOW = {"arm": "dark", "share": 1.0, "max_concurrency": 2, "max_queue": 3}


async def copies(gateway, result):
    return await gateway.metric("experiment_shadow_copies_total", result=result) or 0


async def test_a_copy_is_asked_in_the_arms_own_words_and_measured(two_arms, ask):
    async with two_arms({"shadow": SHADOW}) as gateway:
        sim = {"accepted": [3] * 5, "step_s": 0.002}
        _, arm = await ask(gateway, sim=sim, max_tokens=100)
        await gateway.until("experiment_shadow_copies_total", 1, result="ok")
        (copy,) = gateway.dark.record.calls
        assert len(copy.body["rid"]) == 32
        assert copy.body["messages"] == [{"role": "user", "content": "hi"}]
        assert await gateway.metric("requests_total", arm="dark") is None
    store = read_store(gateway.state)
    tallies = {arm: tally for _, arm, tally in store.tallies()}
    store.close()
    assert tallies.keys() == {arm, "dark"}
    assert {metric: sums.n for metric, sums in tallies["dark"].sums.items()} == {"tpot": 1, "ttft": 1}
    assert tallies["dark"].counts.requests == 1


async def test_the_shares_conversations_are_copied_whole_or_not_at_all(two_arms, ask):
    async with two_arms({"shadow": SHADOW | {"share": 0.3, "max_queue": 1000}}) as gateway:
        for _ in range(2):
            for i in range(60):
                await ask(gateway, f"u{i}")
        await gateway.until("experiment_shadow_queue", 0)
        users = [call.body["user"] for call in gateway.dark.record.calls]
        assert 6 <= len(set(users)) <= 32
        await gateway.until("experiment_shadow_copies_total", 2 * len(set(users)), result="ok")


async def test_a_silent_shadow_costs_the_primary_nothing_and_what_finds_no_room_is_counted(two_arms, ask):
    async with two_arms({"shadow": SHADOW}) as gateway:
        silent = {"sim": {"header_delay_s": 0.0}}
        alone = []
        for i in range(40):
            started = time.perf_counter()
            assert (await ask(gateway, f"u{i}", **silent))[0] == 200
            alone.append(time.perf_counter() - started)
        await gateway.until("experiment_shadow_queue", 0)
        dropped = await copies(gateway, "dropped_full")
        gateway.dark.phase = "silent"
        beside = []
        for i in range(40):
            started = time.perf_counter()
            assert (await ask(gateway, f"u{i}", **silent))[0] == 200
            beside.append(time.perf_counter() - started)
        # Two are at the arm, three wait; all others were dropped.
        assert await copies(gateway, "dropped_full") + await copies(gateway, "dropped_not_ready") == dropped + 35
        assert await gateway.metric("experiment_shadow_queue") == 3
        assert sorted(beside)[20] < sorted(alone)[20] + 0.05
        # Aborts are answered again, which the gateway's end waits for.
        gateway.dark.phase = "ready"


async def test_large_copies_find_no_room(two_arms, ask):
    async with two_arms({"shadow": SHADOW | {"max_queue_bytes": 2000}}) as gateway:
        await ask(gateway, messages=[{"role": "user", "content": "x" * 3000}])
        assert await copies(gateway, "dropped_full") == 1
        assert not gateway.dark.record.calls


async def test_a_failing_or_unready_shadow_is_counted_and_the_client_does_not_see_it(two_arms, ask):
    async with two_arms({"shadow": SHADOW}) as gateway:
        gateway.dark.settings = gateway.dark.settings.model_copy(update={"served_model_name": "z"})
        gateway.dark.phase = "loading"
        assert (await ask(gateway))[0] == 200
        await gateway.until_ready("dark", 0)
        assert (await ask(gateway))[0] == 200
        assert await copies(gateway, "failed") + await copies(gateway, "dropped_not_ready") == 2
        assert await copies(gateway, "dropped_not_ready") >= 1


async def test_copies_under_way_end_with_the_gateway(two_arms, ask, eventually):
    async with two_arms({"shadow": SHADOW}) as gateway:
        for i in range(4):
            # The primary's are done when the copies still stall: the client hangs up on them.
            async with gateway.post(user=f"u{i}", sim={"fault": "stall", "fault_after": 2}) as response:
                await response.content.readany()
        await eventually(lambda: len(gateway.dark.record.calls) == 2)
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started < 5
    await eventually(lambda: len(gateway.dark.record.cancellations) == 2)
    rids = {call.body["rid"] for call in gateway.dark.record.calls}
    assert {abort["rid"] for abort in gateway.dark.record.aborts} == rids


async def test_a_stopped_shadow_gets_nothing(two_arms, ask):
    async with two_arms({"shadow": SHADOW, "weights": {"sglang": 1}}) as gateway:
        store = stop_store(gateway.state)
        store.stop([Stop("dark", 1.0, BY_HAND, "test")])
        store.close()
        await gateway.until("experiment_stopped", 1, arm="dark", reason=BY_HAND)
        assert await ask(gateway) == (200, "sglang")
        await asyncio.sleep(0.05)
        assert not gateway.dark.record.calls
