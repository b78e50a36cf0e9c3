"""One arm's slots: bounded concurrency, and a bounded queue that is fair between keys."""

import asyncio
from collections import OrderedDict, deque

from prometheus_client import Gauge

from k25serve.server.gateway.errors import NoCapacityError

Waiter = asyncio.Future[None]


class Slots:
    """Hands out at most `concurrency` slots; further requests wait, at most `queue` of them.

    Freed slots go round the keys that wait, one request each in turn, so that a key with a hundred requests delays
    another key's first one by one turn at most. For the same reason a full queue makes room for a key that holds less
    than the greediest one: the latter's newest request has to go.

    Belongs to one event loop. `depth` shows the queue.
    """

    def __init__(self, concurrency: int, queue: int, retry_after_s: int, depth: Gauge) -> None:
        self._free = concurrency
        self._queue = queue
        self._retry_after_s = retry_after_s
        self._depth = depth
        self._waiting: OrderedDict[str, deque[Waiter]] = OrderedDict()
        self._count = 0

    @property
    def full(self) -> bool:
        """A request that comes now could not even wait."""
        return not self._free and self._count >= self._queue

    async def acquire(self, key: str, timeout_s: float) -> None:
        """Takes a slot, which release() gives back.

        Raises:
            NoCapacityError: the queue is full, or the turn didn't come in time.
        """
        if self._free and not self._count:
            self._free -= 1
            return
        self._make_room(key)
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(waiter)
        self._counted(1)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            self._leave(key, waiter)
            raise NoCapacityError(
                f"No slot became free within {timeout_s:g} s. Try again in {self._retry_after_s} s.",
                "queue_timeout",
                self._retry_after_s,
            ) from None
        except asyncio.CancelledError:
            self._leave(key, waiter)
            raise

    def release(self) -> None:
        """Gives a slot back, to the next key in turn if one waits."""
        while self._waiting:
            key, waiters = next(iter(self._waiting.items()))
            waiter = waiters.popleft()
            self._counted(-1)
            if waiters:
                self._waiting.move_to_end(key)
            else:
                del self._waiting[key]
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    def _make_room(self, key: str) -> None:
        if self._count < self._queue:
            return
        greediest = max(self._waiting, key=lambda k: len(self._waiting[k]), default=None)
        mine = len(self._waiting.get(key, ()))
        if greediest is None or len(self._waiting[greediest]) <= mine + 1:
            raise self._full()
        waiters = self._waiting[greediest]
        waiter = waiters.pop()
        self._counted(-1)
        if not waiter.done():
            waiter.set_exception(self._full())

    def _leave(self, key: str, waiter: Waiter) -> None:
        """Takes a request out of the queue, or gives its slot back if it had just got one."""
        waiters = self._waiting.get(key)
        if waiters is not None and waiter in waiters:
            waiters.remove(waiter)
            self._counted(-1)
            if not waiters:
                del self._waiting[key]
        elif waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self.release()

    def _counted(self, change: int) -> None:
        self._count += change
        self._depth.inc(change)

    def _full(self) -> NoCapacityError:
        return NoCapacityError(
            f"Every slot is taken and the queue is full. Try again in {self._retry_after_s} s.",
            "queue_full",
            self._retry_after_s,
        )
