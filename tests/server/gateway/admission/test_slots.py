import asyncio

import pytest
from prometheus_client import CollectorRegistry, Gauge

from k25serve.server.gateway.admission.key_limits import KeyLimits
from k25serve.server.gateway.admission.slots import Slots
from k25serve.server.gateway.auth.keys import Caller
from k25serve.server.gateway.errors import NoCapacityError, RateLimitedError


class Line:
    """Slots, and the order in which requests got one."""

    def __init__(self, concurrency, queue):
        self.depth = Gauge("depth", "Waiting.", registry=CollectorRegistry())
        self.slots = Slots(concurrency, queue, 5, self.depth)
        self.served = []

    def come(self, key, timeout_s=5.0):
        async def wait():
            await self.slots.acquire(key, timeout_s)
            self.served.append(key)

        return asyncio.create_task(wait())

    @property
    def waiting(self):
        return next(iter(self.depth.collect())).samples[0].value


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_than_its_slots_at_once():
    line = Line(2, 10)
    tasks = [line.come("a") for _ in range(4)]
    await settle()
    assert (line.served, line.waiting) == (["a", "a"], 2)
    line.slots.release()
    await settle()
    assert (len(line.served), line.waiting) == (3, 1)
    line.slots.release()
    await asyncio.gather(*tasks)


async def test_keys_take_turns_however_many_each_sends():
    line = Line(1, 100)
    line.come("first")
    await settle()
    tasks = [line.come(key) for key in ["a"] * 6 + ["b"] * 2 + ["c"]]
    await settle()
    for _ in tasks:
        line.slots.release()
        await settle()
    assert line.served[1:] == ["a", "b", "c", "a", "b", "a", "a", "a", "a"]


async def test_a_full_queue_refuses():
    line = Line(1, 1)
    line.come("a")
    await settle()
    waiting = line.come("a")
    await settle()
    assert line.slots.full
    with pytest.raises(NoCapacityError) as caught:
        await line.slots.acquire("a", 5)
    assert (caught.value.status, caught.value.kind) == (503, "queue_full")
    assert (b"retry-after", b"5") in caught.value.headers()
    line.slots.release()
    await waiting


async def test_a_full_queue_makes_room_for_a_key_that_holds_less():
    line = Line(1, 3)
    line.come("greedy")
    await settle()
    greedy = [line.come("greedy") for _ in range(3)]
    await settle()
    modest = line.come("modest")
    await settle()
    with pytest.raises(NoCapacityError):
        await greedy[2]
    line.slots.release()
    await settle()
    line.slots.release()
    await modest
    assert line.served == ["greedy", "greedy", "modest"]
    line.slots.release()
    await greedy[1]


async def test_a_turn_that_does_not_come():
    line = Line(1, 1)
    line.come("a")
    await settle()
    with pytest.raises(NoCapacityError) as caught:
        await line.slots.acquire("a", 0.02)
    assert caught.value.kind == "queue_timeout"
    assert line.waiting == 0


@pytest.mark.parametrize("granted", [False, True])
async def test_who_leaves_the_queue_takes_no_slot_along(granted):
    line = Line(1, 5)
    line.come("a")
    await settle()
    leaving, next_one = line.come("a"), line.come("b")
    await settle()
    if granted:
        line.slots.release()
    leaving.cancel()
    await settle()
    if not granted:
        line.slots.release()
    async with asyncio.timeout(1):
        await next_one
    assert line.waiting == 0
    line.slots.release()
    async with asyncio.timeout(1):
        await line.slots.acquire("c", 1)


async def test_many_that_come_and_leave_at_random_lose_no_slot():
    line = Line(3, 50)
    running = 0

    async def one(i):
        nonlocal running
        await line.slots.acquire(f"key{i % 7}", 5)
        running += 1
        assert running <= 3
        try:
            await asyncio.sleep(0.0005 * (i % 5))
        finally:
            running -= 1
            line.slots.release()

    tasks = [asyncio.create_task(one(i)) for i in range(400)]
    for i, task in enumerate(tasks):
        if i % 3 == 0:
            task.cancel()
        if i % 40 == 0:
            await asyncio.sleep(0.001)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} <= {type(None), asyncio.CancelledError, NoCapacityError}
    assert (running, line.waiting) == (0, 0)
    for _ in range(3):
        async with asyncio.timeout(1):
            await line.slots.acquire("x", 1)
    assert line.slots._free == 0


def test_a_keys_own_limit():
    limits = KeyLimits(2, 7)
    one, other, big = Caller("one"), Caller("other"), Caller("big", max_concurrency=3)
    with limits.hold(one), limits.hold(one), limits.hold(other), limits.hold(big), limits.hold(big), limits.hold(big):
        for caller in (one, big):
            with pytest.raises(RateLimitedError) as caught, limits.hold(caller):
                pass
            assert caught.value.status == 429
            assert (b"retry-after", b"7") in caught.value.headers()
    with limits.hold(one):
        pass


def test_workers_share_a_limit():
    limits = KeyLimits(8, 7, divide_by=4)
    one = Caller("one")
    with limits.hold(one), limits.hold(one), pytest.raises(RateLimitedError), limits.hold(one):
        pass
