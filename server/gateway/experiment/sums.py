"""Sums over sessions, from which means and regressions follow without keeping a session. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Sums:
    """Of `n` sessions within one minute of one arm, each as the mean of its requests there.

    `y`: log seconds. `x`: covariates, [k]. `xy`: [k]. `xx`: [k * (k + 1) / 2], lower triangle by rows.
    """

    n: int = 0
    y: float = 0.0
    x: list[float] = field(default_factory=list)
    xy: list[float] = field(default_factory=list)
    xx: list[float] = field(default_factory=list)

    def add(self, y: float, x: Sequence[float], sign: int = 1) -> None:
        """Takes a session in, or out again with sign -1."""
        if not self.x:
            self._begin(len(x))
        self.n += sign
        self.y += sign * y
        xx, at = self.xx, 0
        for i, a in enumerate(x):
            signed = sign * a
            self.x[i] += signed
            self.xy[i] += signed * y
            for b in x[: i + 1]:
                xx[at] += signed * b
                at += 1

    def merge(self, other: "Sums") -> None:
        if not other.n:
            return
        if not self.x:
            self._begin(len(other.x))
        self.n += other.n
        self.y += other.y
        for mine, theirs in ((self.x, other.x), (self.xy, other.xy), (self.xx, other.xx)):
            for i, value in enumerate(theirs):
                mine[i] += value

    def _begin(self, k: int) -> None:
        self.x, self.xy, self.xx = [0.0] * k, [0.0] * k, [0.0] * (k * (k + 1) // 2)
