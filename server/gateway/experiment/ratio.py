"""Did each arm get its share of the conversations? Pure.

The sequential counterpart of the chi-square test: a multinomial likelihood with a Dirichlet mixture around the
intended shares, against those shares; it may be looked at after every conversation (Lindon and Malek 2022).
"""

import math
from collections.abc import Iterable, Mapping

ALARM = 0.01
_CONCENTRATION = 200.0
"""The mixture's: breakage of a few per cent is what it looks for."""


def ratio_p_value(counts: Iterable[Mapping[str, int]], weights: Mapping[str, float]) -> float:
    """Always-valid p of the shares being `weights`.

    `counts`: conversations of each arm that came first in one stretch of time, the stretches in order.
    """
    whole = sum(weights.values())
    shares = {arm: weight / whole for arm, weight in weights.items()}
    seen = dict.fromkeys(shares, 0)
    smallest = 0.0
    for stretch in counts:
        for arm in shares:
            seen[arm] += stretch.get(arm, 0)
        smallest = min(smallest, -_log_evidence(seen, shares))
    return math.exp(smallest)


def _log_evidence(seen: Mapping[str, int], shares: Mapping[str, float]) -> float:
    total = math.lgamma(_CONCENTRATION) - math.lgamma(_CONCENTRATION + sum(seen.values()))
    for arm, share in shares.items():
        prior = _CONCENTRATION * share
        total += math.lgamma(prior + seen[arm]) - math.lgamma(prior) - seen[arm] * math.log(share)
    return total
