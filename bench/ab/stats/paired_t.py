"""Paired t on log ratios."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True, slots=True)
class PairedT:
    """Two-sided, of `n` differences. low, high: the interval of the mean; infinite where n < 2."""

    n: int
    mean: float
    sd: float
    p: float
    low: float
    high: float


def paired_t(differences: Sequence[float], level: float) -> PairedT:
    """level: of significance, so the interval is at 1 - level. One value a unit, however many requests it sums up:
    requests of one boot are not independent. Raises ValueError without a difference or for one that is not finite.
    """
    if not differences or not all(map(math.isfinite, differences)):
        raise ValueError(f"a paired t needs finite differences, not {list(differences)}")
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return PairedT(n, mean, 0.0, 1.0, -math.inf, math.inf)
    sd = float(np.std(differences, ddof=1))
    error = sd / math.sqrt(n)
    if error == 0:
        return PairedT(n, mean, 0.0, 1.0 if mean == 0 else 0.0, mean, mean)
    half = float(stats.t.ppf(1 - level / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return PairedT(n, mean, sd, p, mean - half, mean + half)
