"""prometheus_client's children without what they check at each call, which costs more than the counting; a request
counts some thirty times."""

from bisect import bisect_left
from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram


class Count:
    """A counter or a gauge, its labels filled in. `add` of a negative amount is for gauges."""

    __slots__ = ("add",)

    def __init__(self, child: Counter | Gauge) -> None:
        self.add: Callable[[float], None] = child._value.inc


class Observations:
    """A histogram, its labels filled in."""

    __slots__ = ("_add_to", "_add_to_sum", "bounds")

    def __init__(self, child: Histogram) -> None:
        self.bounds: list[float] = child._upper_bounds
        self._add_to_sum: Callable[[float], None] = child._sum.inc
        self._add_to: list[Callable[[float], None]] = [bucket.inc for bucket in child._buckets]

    def observe(self, amount: float) -> None:
        self._add_to_sum(amount)
        self._add_to[bisect_left(self.bounds, amount)](1)

    def add(self, total: float, counts: list[int]) -> None:
        """Many observations: their sum, and how many fell into each bucket."""
        self._add_to_sum(total)
        for add, count in zip(self._add_to, counts, strict=True):
            if count:
                add(count)
