"""How much exploration may cost."""


class Budget:
    """Spending never exceeds `share` of the time that has passed: whoever spends asks first, with the worst case."""

    def __init__(self, share: float) -> None:
        self._share = share
        self.elapsed = 0.0
        self.spent = 0.0

    def pass_time(self, seconds: float) -> None:
        """A step was decided on."""
        self.elapsed += seconds

    def allows(self, seconds: float) -> bool:
        """Whether so much more may be spent."""
        return self.spent + seconds <= self._share * self.elapsed

    def spend(self, seconds: float) -> None:
        """Exploration cost this much; negative where it cost less than was feared."""
        self.spent = max(0.0, self.spent + seconds)
