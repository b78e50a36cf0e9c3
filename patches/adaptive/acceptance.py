"""A running estimate of how often each draft token is accepted."""

import math
from collections.abc import Sequence

MEMORY = 512.0
"""Steps after which what is believed weighs 1/e."""
MOST, MOST_STEPS = 2048.0, 256
"""Observations that it weighs at most, and steps of the batch that runs: what changes is noticed within these."""
INERTIA = 16.0
"""Observations that it weighs at least, however old."""
TRUST, TRUST_MEMORY = 512.0, 128.0
"""Observations that count at most for how sure it is, and steps after which they count 1/e."""
LEAST_VARIANCE = 0.05
MOST_LIKELY = 0.98


class Acceptance:
    """Per position: the chance that a draft token is accepted, given that those before it were.

    An old value is kept, since nothing better is known, but less and less trusted: `high` widens with age.
    """

    def __init__(self, chances: Sequence[float]) -> None:
        """chances: [positions], believed at first."""
        self._chances = list(chances)
        self._weights = [INERTIA] * len(chances)
        self._fresh = [0.0] * len(chances)

    def observe(self, steps: int, accepted: Sequence[int]) -> None:
        """Take in one step: `steps` were drafted for each request, `accepted` of them taken, [requests]."""
        self._weights = [max(INERTIA, weight * math.exp(-1 / MEMORY)) for weight in self._weights]
        self._fresh = [fresh * math.exp(-1 / TRUST_MEMORY) for fresh in self._fresh]
        most = min(MOST, max(INERTIA, MOST_STEPS * len(accepted)))
        for position in range(steps):
            tried = sum(1 for count in accepted if count >= position)
            taken = sum(1 for count in accepted if count > position)
            if not tried:
                break
            weight = min(most, self._weights[position])
            self._chances[position] = (self._chances[position] * weight + taken) / (weight + tried)
            self._weights[position] = weight + tried
            self._fresh[position] = min(TRUST, self._fresh[position] + tried)

    def tokens(self, steps: int) -> float:
        """Expected tokens of a step with `steps` drafts, the target's own included."""
        return _tokens(self._chances[:steps])

    def high(self, steps: int, deviations: float) -> float:
        """The same if every chance were some standard deviations above its estimate."""
        pairs = zip(self._chances[:steps], self._fresh, strict=False)
        return _tokens([_raised(chance, fresh, deviations) for chance, fresh in pairs])


def _raised(chance: float, fresh: float, deviations: float) -> float:
    deviation = math.sqrt(max(chance * (1 - chance), LEAST_VARIANCE) / (fresh + 1))
    return max(chance, min(MOST_LIKELY, chance + deviations * deviation))


def _tokens(chances: Sequence[float]) -> float:
    total = reached = 1.0
    for chance in chances:
        reached *= chance
        total += reached
    return total
