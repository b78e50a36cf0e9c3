"""The decision: which number of draft steps brings the most tokens per second here and now.

Arms below the running one need no exploring: a step with k drafts also shows what fewer would have brought. Arms above
it, and any arm while nothing is drafted, are probed when they might be better, within a budget.

Without drafts the drafter's cache goes stale unless SGLang extends it after every step, which costs a forward of the
drafter. Where that is dear, it is left out, and done again for a while before a probe.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from k25serve.patches.adaptive.acceptance import Acceptance
from k25serve.patches.adaptive.budget import Budget
from k25serve.patches.adaptive.costs import StepCosts

EXPLORE_SHARE = 0.02
HYSTERESIS = 0.01
DEVIATIONS = 1.5
PROBE_ROWS = 64
PROBE_STEPS = 4
WARM_STEPS = 32
SETTLE_STEPS = 4
"""Verifications after stale drafts that say nothing of the drafter."""
CHEAP = 0.005
"""Share of a step below which the drafter's cache is always kept up to date."""


@dataclass(frozen=True)
class Choice:
    """What to do in one decode step. extend: bring the drafter's cache up to date after a step without drafts."""

    steps: int
    extend: bool = True


@dataclass
class _Probe:
    """steps: the arm. warm, left: steps still to run without drafts but with extension, and with drafts."""

    steps: int
    warm: int
    left: int
    token_seconds: float  # what a request's token costs on the arm that would have run instead


class Policy:
    """Decides before every decode step; learns from every verification. One object per scheduler."""

    def __init__(self, costs: StepCosts, explore_share: float = EXPLORE_SHARE, hysteresis: float = HYSTERESIS) -> None:
        self._costs = costs
        self._hysteresis = hysteresis
        self._acceptance = Acceptance(costs.accept_chances)
        self.budget = Budget(explore_share)
        self._steps: int | None = None
        self._probe: _Probe | None = None
        self._settling = 0

    def choose(self, batch: int, context: float, arms: Collection[int]) -> Choice:
        """The next step's arm. batch: running requests; context: their mean length; arms: those that may be chosen.

        Raises ValueError where no arm is in the table.
        """
        seconds = {k: value for k, value in self._costs.at(batch, context).items() if k in arms}
        if not seconds:
            raise ValueError(f"none of the steps {sorted(arms)} is in the cost table, which has {self._costs.steps}")
        keep_warm = self._costs.draft_extend_seconds
        stale = 0 in seconds and keep_warm > CHEAP * seconds[0]
        if 0 in seconds and not stale:
            seconds[0] += keep_warm
        rates = {k: self._acceptance.tokens(k) / value for k, value in seconds.items()}
        self._settle_on(rates)
        choice = self._explore(seconds, rates, batch, stale)
        if choice.steps == 0 and not choice.extend:
            self._settling = SETTLE_STEPS
        self.budget.pass_time(seconds[choice.steps] + (keep_warm if stale and choice == Choice(0) else 0.0))
        return choice

    def observe(self, steps: int, accepted: Sequence[int]) -> None:
        """What a verification of `steps` drafts a request accepted, [requests]. It may come a step late."""
        if steps and self._settling:
            self._settling -= 1
            accepted = []
        self._acceptance.observe(steps, accepted)
        probe = self._probe
        if probe is not None and accepted and steps == probe.steps:
            self.budget.spend(-probe.token_seconds * sum(accepted) / len(accepted))

    def _settle_on(self, rates: dict[int, float]) -> None:
        best = max(rates, key=lambda k: rates[k])
        running = rates.get(self._steps, 0.0) if self._steps is not None else 0.0
        if rates[best] > running * (1 + self._hysteresis):
            self._steps = best

    def _explore(self, seconds: dict[int, float], rates: dict[int, float], batch: int, stale: bool) -> Choice:
        assert self._steps is not None
        running = self._steps
        rest = Choice(running, extend=running > 0 or not stale)
        probe = self._probe
        if probe is None or not probe.left or probe.steps <= running or probe.steps not in seconds:
            probe = self._begin(seconds, rates, batch, stale and running == 0)
            if probe is None:
                return rest
            self._probe = probe
        warming = probe.warm > 0
        cost = self._costs.draft_extend_seconds if warming else seconds[probe.steps] - probe.token_seconds
        if not self.budget.allows(cost):  # the batch grew
            probe.left = 0
            return rest
        self.budget.spend(cost)
        if warming:
            probe.warm -= 1
            return Choice(0)
        probe.left -= 1
        return Choice(probe.steps)

    def _begin(self, seconds: dict[int, float], rates: dict[int, float], batch: int, stale: bool) -> _Probe | None:
        """A probe of the arm that might be best, if one might be better than the running one and can be afforded."""
        assert self._steps is not None
        running = rates[self._steps]
        hopes = {k: self._acceptance.high(k, DEVIATIONS) / seconds[k] for k in seconds if k > self._steps}
        arm = max(hopes, key=lambda k: hopes[k], default=None)
        if arm is None or hopes[arm] <= running * (1 + self._hysteresis):
            return None
        warm = WARM_STEPS if stale else 0
        left = max(PROBE_STEPS, math.ceil(PROBE_ROWS / batch))
        worst = warm * self._costs.draft_extend_seconds + left * max(0.0, seconds[arm] - 1 / running)
        return _Probe(arm, warm, left, 1 / running) if self.budget.allows(worst) else None
