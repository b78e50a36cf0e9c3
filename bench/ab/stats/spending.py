"""Alpha spending (Lan and DeMets 1983): looking early costs what it costs, and the sum stays alpha."""

import functools
import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

Floats = npt.NDArray[np.float64]
Spending = Literal["obrien-fleming", "pocock"]
GRID = 801
WIDEST = 38.0  # standard deviations; a smaller p does not exist in double precision
NEVER = 1e-300


def spent(fraction: float, alpha: float, kind: Spending) -> float:
    """Alpha spent by the time that `fraction` of all units are in, two-sided: half of it on either side."""
    if kind == "pocock":
        return alpha * math.log(1 + (math.e - 1) * fraction)
    return float(4 * stats.norm.sf(stats.norm.ppf(1 - alpha / 4) / math.sqrt(fraction)))


@functools.cache
def nominal_levels(fractions: tuple[float, ...], alpha: float, kind: Spending) -> tuple[float, ...]:
    """The two-sided p that must be reached at each look, so that all looks together reject with chance `alpha` where
    there is no difference. fractions: of all units, rising, the last one 1.

    Computed by recursive integration over the score process (Armitage, McPherson and Rowe 1969). Exact for normal
    statistics; used with t, whose p values are calibrated at each look, it is a little off with few units:
    tests/bench/ab/test_error_rates.py says how much.
    """
    if not fractions or fractions[-1] != 1 or any(b <= a for a, b in zip((0, *fractions), fractions, strict=False)):
        raise ValueError(f"looks must rise to 1, not {list(fractions)}")
    if len(fractions) == 1:
        return (alpha,)
    levels: list[float] = []
    before_t = before_spent = 0.0
    grid, density = np.zeros(1), np.ones(1)  # of the score process at the last look, where it went on
    for fraction in fractions:
        scale, root = math.sqrt(fraction - before_t), math.sqrt(fraction)
        now_spent = spent(fraction, alpha, kind)
        bound = _bound(grid, density, scale, root, now_spent - before_spent)
        levels.append(max(NEVER, float(2 * stats.norm.sf(bound))))
        after = np.linspace(-bound * root, bound * root, GRID)
        steps = stats.norm.pdf((after[:, None] - grid[None, :]) / scale) / scale
        density = _integral(density[None, :] * steps, grid)
        grid, before_t, before_spent = after, fraction, now_spent
    return tuple(levels)


def _bound(grid: Floats, density: Floats, scale: float, root: float, target: float) -> float:
    """The |z| that is first crossed at this look with chance `target`."""

    def crossing(bound: float) -> float:
        above, below = (bound * root - grid) / scale, (-bound * root - grid) / scale
        return float(_integral(density * (stats.norm.sf(above) + stats.norm.cdf(below)), grid)) - target

    return WIDEST if crossing(WIDEST) >= 0 else float(optimize.brentq(crossing, 0, WIDEST))


def _integral(values: Floats, grid: Floats) -> Floats:
    """Over the last axis; a single point carries the whole mass."""
    return values[..., 0] if len(grid) == 1 else np.asarray(np.trapezoid(values, grid, axis=-1))
