"""Quantiles, as the benchmark takes them. Pure."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least a share `q` of all values doesn't exceed.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("a quantile needs at least one value")
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
