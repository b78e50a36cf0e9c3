"""Histograms that cost a step next to nothing: values are counted here and written to Prometheus' files now and then.

A Prometheus histogram writes two numbers to a shared file at each value, 5 us and more; here a value costs a
comparison and two additions. What was counted is written once a second, and at once where the engine has nothing to do.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Histogram

FLUSH_S = 1.0


class Tally:
    """One histogram, with at most one label. `labels`: the label's values, or ("",) for a histogram without one."""

    def __init__(
        self,
        histogram: "Histogram",
        labels: Sequence[str] = ("",),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = {label: histogram.labels(label) if label else histogram for label in labels}
        # prometheus_client has no call for many values at once; its two parts are what `observe` itself adds to.
        first = self._children[labels[0]]
        self._bounds: list[float] = list(first._upper_bounds)
        self._counts = {label: [0] * len(self._bounds) for label in labels}
        self._sums = dict.fromkeys(labels, 0.0)
        self._clock = clock
        self._written = clock()
        self._dirty = False

    def add(self, value: float, label: str = "", weight: int = 1) -> None:
        """Count one value, or `weight` times, where it is of a sample and stands for so many."""
        self._counts[label][bisect_left(self._bounds, value)] += weight
        self._sums[label] += value * weight
        self._dirty = True
        if self._clock() - self._written >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what was counted since the last time."""
        if not self._dirty:
            return
        for label, child in self._children.items():
            counts = self._counts[label]
            for position, count in enumerate(counts):
                if count:
                    child._buckets[position].inc(count)
                    counts[position] = 0
            if self._sums[label]:
                child._sum.inc(self._sums[label])
                self._sums[label] = 0.0
        self._dirty = False
        self._written = self._clock()
