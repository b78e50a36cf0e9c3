"""How unlikely a count is. Pure."""

import math


def at_least(k: int, n: int, p: float) -> float:
    """Chance of k or more of n where each has chance `p`; exact for k above n * p, else 1."""
    if k <= n * p:
        return 1.0
    if p <= 0:
        return 0.0
    log_term = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    term = math.exp(log_term + k * math.log(p) + (n - k) * math.log1p(-p))
    total = 0.0
    while k <= n and term > total * 1e-12:
        total += term
        # Above the mean each term is a fixed part of the one before, or less.
        term *= (n - k) / (k + 1) * p / (1 - p)
        k += 1
    return min(1.0, total)
