"""A test that holds where neighbouring blocks are alike: the same numbers in blocks of 1, 2, 4, ... of them. Pure.

Load has a memory, so the differences of neighbouring minutes are not independent and a test that takes them so finds
too much. Longer blocks are less dependent. Instead of choosing a length, every length must agree: the p is the largest,
the interval the hull. That is valid wherever the longest blocks, an eighth of the whole so far, are independent.
"""

import math
from dataclasses import dataclass, field

from k25serve.server.gateway.experiment.mixture import detectable, half_width, p_value
from k25serve.server.gateway.experiment.running import Running

PRIOR = 0.1
"""Variance of the effect expected, in variances of one difference: 5 % where minutes differ by 16 %."""
FEWEST = 8
"""Blocks of one length that count."""
FIRST_LOOK = 128
"""Differences before the first look: the longest blocks are at least sixteen of them then."""


@dataclass(slots=True)
class Levels:
    _levels: list[Running] = field(default_factory=lambda: [Running()])
    _open: list[float | None] = field(default_factory=lambda: [None])

    def add(self, difference: float) -> None:
        """One block's difference between the arms."""
        value: float | None = difference
        for level in range(len(self._levels) + 1):
            if value is None:
                return
            if level == len(self._levels):
                self._levels.append(Running())
                self._open.append(None)
            self._levels[level].add(value)
            held = self._open[level]
            self._open[level], value = (value, None) if held is None else (None, (held + value) / 2)

    @property
    def n(self) -> int:
        return self._levels[0].n

    @property
    def mean(self) -> float:
        return self._levels[0].mean

    @property
    def p_value(self) -> float:
        """Always-valid p of the mean being 0."""
        return max((p_value(level, self._prior(i)) for i, level in self._counting()), default=1.0)

    def interval(self, alpha: float) -> tuple[float, float]:
        """The confidence sequence at 1 - alpha."""
        low, high = math.inf, -math.inf
        for i, level in self._counting():
            width = half_width(level, self._prior(i), alpha)
            low, high = min(low, level.mean - width), max(high, level.mean + width)
        return (low, high) if low <= high else (-math.inf, math.inf)

    def detectable(self, alpha: float) -> float:
        """The smallest mean that would have been found by now, with a power of 0.8."""
        return max((detectable(level, self._prior(i), alpha) for i, level in self._counting()), default=math.inf)

    def _counting(self) -> list[tuple[int, Running]]:
        if self.n < FIRST_LOOK:
            return []
        return [(i, level) for i, level in enumerate(self._levels) if level.n >= FEWEST]

    @staticmethod
    def _prior(level: int) -> float:
        # The mean of 2^level differences has a smaller deviation, so the same effect is larger in its units.
        return PRIOR * (1 << level)
