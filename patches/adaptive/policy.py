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

DEVIATIONS = 1.5
PROBE_STEPS = 4
COLD_PROBE_ROWS = 64
"""Requests' verifications after a warm-up, which has to be worth its price."""
WARM_STEPS = 64
SETTLE_STEPS = 4
"""Steps with extension until what is accepted says something of the drafter again."""
CHEAP = 0.005
"""Share of a step below which the drafter's cache is always kept up to date."""


@dataclass(frozen=True)
class Choice:
    """What to do in one decode step. extend: bring the drafter's cache up to date. probe: it is exploration."""

    steps: int
    extend: bool = True
    probe: bool = False


@dataclass
class _Probe:
    """warm, left: steps to come without drafts but with extension, and with `steps` drafts.

    instead: the arm that would have run; token_seconds: what a request's token costs there.
    """

    steps: int
    warm: int
    left: int
    instead: int
    token_seconds: float


@dataclass(frozen=True)
class _Here:
    """One decode step's arms: seconds of each, and tokens per second and request. stale: 0 is without extension."""

    batch: int
    seconds: dict[int, float]
    rates: dict[int, float]
    stale: bool


class Policy:
    """Decides before every decode step; learns from every verification. One object per scheduler.

    explore_share: of the time by the table, what probes may cost at most. hysteresis: relative gain that a change of
    arm must promise. Raises ValueError where one is outside 0 to 0.5.
    """

    def __init__(self, costs: StepCosts, explore_share: float = 0.015, hysteresis: float = 0.005) -> None:
        for name, value in (("explore_share", explore_share), ("hysteresis", hysteresis)):
            if not 0 <= value <= 0.5:
                raise ValueError(f"{name} {value} must be between 0 and 0.5; 0.015 and 0.005 are the defaults")
        self.costs = costs
        self.budget = Budget(explore_share)
        self._hysteresis = hysteresis
        self._acceptance = Acceptance(costs.accept_chances)
        self._steps = 0
        self._probe: _Probe | None = None
        self._settling = 0

    def choose(self, batch: int, context: float, arms: Collection[int]) -> Choice:
        """The next step's arm. batch: running requests; context: their mean length; arms: those that may be chosen.

        Raises ValueError where no arm is in the table.
        """
        here = self._look(batch, context, arms)
        self._settle_on(here.rates)
        choice = self._explore(here)
        self._settling = max(0, self._settling - 1) if choice.extend else SETTLE_STEPS
        extension = self.costs.draft_extend_seconds if here.stale and choice.steps == 0 and choice.extend else 0.0
        self.budget.pass_time(here.seconds[choice.steps] + extension)
        return choice

    def observe(self, steps: int, accepted: Sequence[int]) -> None:
        """What a verification of `steps` drafts a request accepted, [requests]. It may come a step late."""
        if not steps or not accepted:
            self._acceptance.observe(0, accepted)
            return
        probe = self._probe
        if probe is not None and steps == probe.steps:
            gained = sum(max(0, count - probe.instead) for count in accepted) / len(accepted)
            self.budget.spend(-gained * probe.token_seconds)
        if not self._settling:
            self._acceptance.observe(steps, accepted)

    def _look(self, batch: int, context: float, arms: Collection[int]) -> _Here:
        seconds = {k: value for k, value in self.costs.at(batch, context).items() if k in arms}
        if not seconds:
            raise ValueError(f"none of the steps {sorted(arms)} is in the cost table, which has {self.costs.steps}")
        extension = self.costs.draft_extend_seconds
        stale = 0 in seconds and extension > CHEAP * seconds[0]
        if 0 in seconds and not stale:
            seconds[0] += extension
        rates = {k: self._acceptance.tokens(k) / value for k, value in seconds.items()}
        return _Here(batch, seconds, rates, stale)

    def _settle_on(self, rates: dict[int, float]) -> None:
        best = max(rates, key=lambda k: rates[k])
        if rates[best] > rates.get(self._steps, 0.0) * (1 + self._hysteresis):
            self._steps = best

    def _explore(self, here: _Here) -> Choice:
        rest = Choice(self._steps, extend=self._steps > 0 or not here.stale)
        probe = self._probe
        if probe is None or not probe.left or probe.instead != self._steps or probe.steps not in here.seconds:
            probe = self._probe = self._begin(here)
        if probe is None:
            return rest
        warming = probe.warm > 0
        extra = here.seconds[probe.steps] - here.seconds[self._steps]
        cost = self.costs.draft_extend_seconds if warming else max(0.0, extra)
        if not self.budget.allows(cost):  # the batch grew
            probe.left = 0
            return rest
        self.budget.spend(cost)
        if warming:
            probe.warm -= 1
            return Choice(0, probe=True)
        probe.left -= 1
        return Choice(probe.steps, probe=True)

    def _begin(self, here: _Here) -> _Probe | None:
        """A probe of the cheapest arm that might be better than the running one, if there is one that we can afford."""
        running, seconds = self._steps, here.seconds
        bar = here.rates[running] * (1 + self._hysteresis)
        above = (k for k in sorted(seconds) if k > running)
        arm = next((k for k in above if self._acceptance.high(k, DEVIATIONS) > bar * seconds[k]), None)
        if arm is None:
            return None
        cold = running == 0 and here.stale
        warm = WARM_STEPS if cold else 0
        left = max(PROBE_STEPS, math.ceil(COLD_PROBE_ROWS / here.batch)) if cold else PROBE_STEPS
        # More drafts bring at least the tokens that fewer bring, so the time beyond the running arm's is the most lost.
        worst = warm * self.costs.draft_extend_seconds + left * max(0.0, seconds[arm] - seconds[running])
        return _Probe(arm, warm, left, running, 1 / here.rates[running]) if self.budget.allows(worst) else None
