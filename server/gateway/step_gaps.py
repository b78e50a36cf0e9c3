"""One stream's gaps between tokens, on their way to the histogram."""

from bisect import bisect_left

from k25serve.server.gateway.direct import Observations

_HELD_S = 1.0


class StepGaps:
    """Counts gaps by bucket and adds them to `histogram` about once a second: an observation costs as much as all
    else that is measured of a chunk.
    """

    def __init__(self, histogram: Observations) -> None:
        self._histogram = histogram
        self._bounds = histogram.bounds
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
        self._until: float | None = None

    def add(self, gap: float, now: float) -> None:
        """Takes one gap that ended `now`; both in seconds."""
        self._counts[bisect_left(self._bounds, gap)] += 1
        self._sum += gap
        if self._until is None:
            self._until = now + _HELD_S
        elif now >= self._until:
            self.flush()
            self._until = now + _HELD_S

    def flush(self) -> None:
        """Adds what is held. Another second's begins."""
        if not self._sum:
            return
        self._histogram.add(self._sum, self._counts)
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
