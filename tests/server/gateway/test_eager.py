import asyncio

import pytest

from k25serve.server.gateway.eager import begin


async def test_work_that_does_not_wait_is_done_at_once():
    done = []

    async def work():
        done.append(1)

    assert begin(work()) is None
    assert done == [1]


async def test_work_that_waits_is_ended_by_whoever_awaits_it():
    gates = [asyncio.Event() for _ in range(2)]
    passed = []

    async def work():
        for gate in gates:
            await gate.wait()
            passed.append(gate)

    rest = begin(work())
    assert rest is not None

    async def finish():
        await rest

    task = asyncio.create_task(finish())
    for gate in gates:
        assert not task.done()
        gate.set()
        await asyncio.sleep(0.01)
    assert passed == gates
    assert task.done()


@pytest.mark.parametrize("waits", [1, 2])
async def test_cancelling_reaches_the_work(waits):
    cleaned = []

    async def work():
        try:
            for _ in range(waits - 1):
                await asyncio.sleep(0)
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    rest = begin(work())

    async def finish():
        await rest

    task = asyncio.create_task(finish())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [1]


async def test_work_that_is_cancelled_may_wait_once_more():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append(1)
            raise

    async def finish(rest):
        await rest

    task = asyncio.create_task(finish(begin(work())))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [1]


def test_an_error_comes_out_of_begin():
    async def work():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(work())
