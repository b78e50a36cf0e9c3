"""Signals become calls, one inside the other; what has to end ends through any cancellation."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from k25serve.server.signals import OR_CLOSED, finished, listen, on_stop


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in OR_CLOSED}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def heard(event: asyncio.Event, number: signal.Signals) -> bool:
    event.clear()
    os.kill(os.getpid(), number)
    async with asyncio.timeout(5):
        await event.wait()
    return True


@pytest.mark.parametrize("number", OR_CLOSED)
async def test_an_inner_call_gives_back_to_the_outer_one(number: signal.Signals) -> None:
    outer, inner = asyncio.Event(), asyncio.Event()
    before = signal.getsignal(number)
    with on_stop(outer.set, OR_CLOSED):
        with on_stop(inner.set, OR_CLOSED):
            assert await heard(inner, number)
            assert not outer.is_set()
        assert await heard(outer, number)
    assert signal.getsignal(number) == before


async def test_sighup_stays_ignored_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asked = asyncio.Event()
    with on_stop(asked.set, OR_CLOSED):
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert await heard(asked, signal.SIGTERM)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_signal_after_the_loop_is_no_fault() -> None:
    called = []

    async def main() -> None:
        listen(lambda: called.append(1))

    asyncio.run(main())
    os.kill(os.getpid(), signal.SIGTERM)
    assert called == []


async def test_finished_through_two_cancellations() -> None:
    may_end, ended = asyncio.Event(), []

    async def work() -> int:
        await may_end.wait()
        ended.append(1)
        return 3

    inner = asyncio.create_task(work())
    waiting = asyncio.create_task(finished(inner))
    for _ in range(2):
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == [1]
    assert await finished(inner) == 3


async def test_finished_raises_what_the_task_raises() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("its fault")

    waiting = asyncio.create_task(finished(asyncio.create_task(fail())))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(ValueError, match="its fault"):
        await waiting
