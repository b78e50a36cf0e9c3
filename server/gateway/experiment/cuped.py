"""Slopes of the metric on its covariates, with which arms are compared at equal covariates (CUPED: Deng et al. 2013).

Pure. The slopes come from differences within a minute of an arm, so they say nothing of the arms' own difference.
"""

import math

from k25serve.server.gateway.experiment.sums import Sums

_PER_COVARIATE = 20
"""Degrees of freedom for each slope before any is used."""
_RIDGE = 1e-6
"""Part of a covariate's own variance: keeps covariates that move together solvable."""


class Slopes:
    def __init__(self, covariates: int) -> None:
        self._k = covariates
        self._freedom = 0
        self._xy = [0.0] * covariates
        self._xx = [[0.0] * covariates for _ in range(covariates)]

    def add(self, sums: Sums) -> None:
        """Takes in a minute of an arm."""
        if sums.n < 2:
            return
        self._freedom += sums.n - 1
        at = 0
        for i in range(self._k):
            self._xy[i] += sums.xy[i] - sums.x[i] * sums.y / sums.n
            for j in range(i + 1):
                self._xx[i][j] += sums.xx[at] - sums.x[i] * sums.x[j] / sums.n
                at += 1

    def fit(self) -> list[float]:
        """[k]; zeros while there are too few sessions, and for a covariate that doesn't vary."""
        if self._freedom < _PER_COVARIATE * self._k:
            return [0.0] * self._k
        return _solve(self._xx, self._xy)


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solves by Cholesky. `matrix`: symmetric, its lower triangle [k, k]."""
    k = len(right)
    root = [[0.0] * k for _ in range(k)]
    half = [0.0] * k
    for i in range(k):
        for j in range(i):
            if root[j][j]:
                root[i][j] = (matrix[i][j] - sum(root[i][m] * root[j][m] for m in range(j))) / root[j][j]
        left = matrix[i][i] * (1 + _RIDGE) - sum(root[i][m] ** 2 for m in range(i))
        # What is left of a covariate that doesn't vary is rounding.
        root[i][i] = math.sqrt(left) if left > 1e-9 * max(1.0, matrix[i][i]) else 0.0
        if root[i][i]:
            half[i] = (right[i] - sum(root[i][m] * half[m] for m in range(i))) / root[i][i]
    slopes = [0.0] * k
    for i in reversed(range(k)):
        if root[i][i]:
            slopes[i] = (half[i] - sum(root[m][i] * slopes[m] for m in range(i + 1, k))) / root[i][i]
    return slopes
