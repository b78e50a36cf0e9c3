"""What a design can find, told before it runs."""

import math

from scipy import optimize, stats

LARGEST = math.log(100)  # a gain of 100 times: whatever isn't found below it isn't found at all


def power(units: int, log_gain: float, sd: float, level: float) -> float:
    """Chance that a two-sided paired t of `units` differences with standard deviation `sd` rejects at `level`, where
    their mean is `log_gain`. Exact for normal differences (noncentral t).
    """
    if units < 2:
        return 0.0
    if sd == 0:
        return 1.0 if log_gain else 0.0
    critical = stats.t.ppf(1 - level / 2, units - 1)
    shift = abs(log_gain) * math.sqrt(units) / sd
    above, below = stats.nct.sf(critical, units - 1, shift), stats.nct.cdf(-critical, units - 1, shift)
    return float(above + (0.0 if math.isnan(below) else below))


def detectable(units: int, sd: float, level: float, wanted: float) -> float | None:
    """The smallest gain (a ratio above 1) that is found with chance `wanted`; None where none of up to 100 times is."""
    if power(units, LARGEST, sd, level) < wanted:
        return None
    if sd == 0:
        return 1.0
    found = optimize.brentq(lambda gain: power(units, gain, sd, level) - wanted, 1e-9, LARGEST)
    return math.exp(float(found))
