"""One arm against the control in one metric, minute after minute. Pure."""

from k25serve.server.gateway.experiment.cuped import Slopes
from k25serve.server.gateway.experiment.levels import Levels
from k25serve.server.gateway.experiment.sums import Sums

SESSIONS = 4
"""Of each arm in a block, at least: where there is less traffic, a block is several minutes."""
LONGEST = 60
"""Minutes of a block, at most; longer ones are left out, since one arm was hardly there."""


class Comparison:
    """A block's difference is the arm's mean over sessions, less the control's over the same minutes: what moves both
    alike drops out. `adjusted` holds the covariates equal as well, with slopes from earlier blocks, so that looking
    at it at any time stays valid.
    """

    def __init__(self, covariates: int, alpha: float) -> None:
        self._alpha = alpha
        self._slopes = Slopes(covariates)
        self._fitted = [0.0] * covariates
        self._refit_at = 1
        self._minutes: list[Sums] = []
        self._begun: int | None = None
        self._control, self._arm = Sums(), Sums()
        self.raw, self.adjusted = Levels(), Levels()
        self.moved = [Levels() for _ in range(covariates)]
        """Differences of the covariates themselves."""
        self.found_at: int | None = None
        """Blocks until the adjusted difference was first found."""

    def minute(self, at: int, control: Sums, arm: Sums) -> None:
        """Takes in the minute `at` of both; minutes come in order."""
        if self._begun is not None and at - self._begun >= LONGEST:
            self._begin()
        if self._begun is None:
            self._begun = at
        self._minutes += (control, arm)
        self._control.merge(control)
        self._arm.merge(arm)
        if min(self._control.n, self._arm.n) >= SESSIONS:
            self._close()

    def _close(self) -> None:
        control, arm = self._control, self._arm
        difference = arm.y / arm.n - control.y / control.n
        moved = [a / arm.n - c / control.n for a, c in zip(arm.x, control.x, strict=True)]
        self.raw.add(difference)
        self.adjusted.add(difference - sum(s * m for s, m in zip(self._fitted, moved, strict=True)))
        for levels, one in zip(self.moved, moved, strict=True):
            levels.add(one)
        for sums in self._minutes:
            self._slopes.add(sums)
        if self.raw.n >= self._refit_at:
            self._fitted = self._slopes.fit()
            self._refit_at = self.raw.n + max(1, self.raw.n // 10)
        self._begin()
        low, high = self.adjusted.interval(self._alpha)
        if self.found_at is None and (low > 0 or high < 0):
            self.found_at = self.adjusted.n

    def _begin(self) -> None:
        self._begun = None
        self._minutes.clear()
        self._control, self._arm = Sums(), Sums()
