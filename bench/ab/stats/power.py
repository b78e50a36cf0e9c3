"""What a design can find, told before it runs."""

import functools
import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

LARGEST = math.log(100)  # a gain of 100 times: whatever isn't found below it isn't found at all
NODES = 4000


def power(units: int, log_gain: float, sd: float, level: float) -> float:
    """Chance that a two-sided paired t of `units` differences with standard deviation `sd` rejects at `level`, where
    their mean is `log_gain`. For normal differences: the noncentral t, as the mean of a normal's tails over what the
    sample's own standard deviation may be. scipy.stats.nct fails for the long tails that few units have.
    """
    if units < 2:
        return 0.0
    if sd == 0:
        return 1.0 if log_gain else 0.0
    return _rejects(units, abs(log_gain) * math.sqrt(units) / sd, level)


def detectable(units: int, sd: float, level: float, wanted: float) -> float | None:
    """The smallest gain (a ratio above 1) that is found with chance `wanted`; None where none of up to 100 times is."""
    if units < 2:
        return None
    log_gain = _shift(units, level, wanted) * sd / math.sqrt(units)
    return math.exp(log_gain) if log_gain <= LARGEST else None


def _rejects(units: int, shift: float, level: float) -> float:
    """shift: the mean over its standard error."""
    critical = float(stats.t.isf(level / 2, units - 1)) * _relative_sd(units - 1)
    return float(np.mean(stats.norm.sf(critical - shift) + stats.norm.cdf(-critical - shift)))


@functools.cache
def _shift(units: int, level: float, wanted: float) -> float:
    """The shift that is found with chance `wanted`; no critical value is below it by more than a few."""
    most = float(stats.t.isf(level / 2, units - 1)) * float(_relative_sd(units - 1)[-1]) + 10
    return float(optimize.brentq(lambda shift: _rejects(units, shift, level) - wanted, 0, most))


@functools.cache
def _relative_sd(freedom: int) -> npt.NDArray[np.float64]:
    """Sample over true standard deviation, at evenly spaced chances."""
    return np.sqrt(np.asarray(stats.chi2.ppf((np.arange(NODES) + 0.5) / NODES, freedom)) / freedom)
