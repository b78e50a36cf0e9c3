"""From values to pixels, and which values get a tick."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

LOG_FROM = 20.0  # a larger ratio of the ends needs a logarithmic axis to be read
TICKS_AT_MOST = 9


@dataclass(frozen=True, slots=True)
class Scale:
    """start, end: pixels of low and high, in either order."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        """Pixels; beyond the ends where the value is."""
        low, high, here = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers between the ends."""
        return _log_ticks(self.low, self.high) if self.log else _linear_ticks(self.low, self.high)


def fit(values: Iterable[float], start: float, end: float, log: bool | None = None) -> Scale:
    """An axis that holds all values. log None: where their range asks for it, else from zero."""
    found = list(values)
    least, most = min(found, default=0.0), max(found, default=1.0)
    can_log = least > 0
    if (log is None and can_log and most / least > LOG_FROM) or (log and can_log):
        low, high = least / 1.15, most * 1.15
        return Scale(low, high, True, start, end)
    low, high = min(0.0, least), max(0.0, most)
    return Scale(low, low + (high - low or 1.0) * 1.06, False, start, end)


def thin(ticks: list[float]) -> list[float]:
    """At most TICKS_AT_MOST of them, evenly left out."""
    step = -(-len(ticks) // TICKS_AT_MOST)
    return ticks[:: max(step, 1)]


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**power for power in powers for f in factors if low <= f * 10.0**power <= high]
        if len(found) <= TICKS_AT_MOST:
            return found
    return thin(found)
