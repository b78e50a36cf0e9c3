"""Two sets of draws from the same distributions? A permutation test, right however rare the values are."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

PERMUTATIONS = 2000


def same_distribution(
    a: Mapping[str, Sequence[str]], b: Mapping[str, Sequence[str]], seed: int, permutations: int = PERMUTATIONS
) -> float | None:
    """p that draws as different as these come from one distribution in each group. None without a group in both.

    The statistic is Pearson's chi-square of the 2 x values table, summed over groups; labels are permuted inside them.
    """
    rng = np.random.default_rng(seed)
    seen, drawn = 0.0, np.zeros(permutations)
    groups = [name for name in a if len(a[name]) > 1 and len(b.get(name, ())) > 1]
    for name in groups:
        values = [*a[name], *b[name]]
        codes = np.unique(values, return_inverse=True)[1]
        total = np.bincount(codes)
        first = len(a[name])
        seen += _statistic(np.bincount(codes[:first], minlength=len(total)), total, first)
        for i in range(permutations):
            part = rng.permutation(codes)[:first]
            drawn[i] += _statistic(np.bincount(part, minlength=len(total)), total, first)
    if not groups:
        return None
    return float((1 + np.sum(drawn >= seen - 1e-9)) / (1 + permutations))


def _statistic(counts: npt.NDArray[np.int64], total: npt.NDArray[np.int64], first: int) -> float:
    share = first / float(total.sum())
    expected = total * share
    return float(np.sum((counts - expected) ** 2 / (expected * (1 - share))))
