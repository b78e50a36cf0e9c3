"""Mean and variance of numbers that come one at a time (Welford 1962). Pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class Running:
    n: int = 0
    mean: float = 0.0
    _squares: float = 0.0

    def add(self, value: float) -> None:
        self.n += 1
        step = value - self.mean
        self.mean += step / self.n
        self._squares += step * (value - self.mean)

    @property
    def variance(self) -> float:
        """Of one number, with n - 1; needs two."""
        return self._squares / (self.n - 1)
