"""What an A/B will do and what it can find: decided and told before the first request. Pure."""

import math
from dataclasses import dataclass
from typing import get_args

from k25serve.bench.ab.result import Metric, PlanFacts, Scope
from k25serve.bench.ab.stats.power import detectable
from k25serve.bench.ab.stats.spending import Spending, nominal_levels, spent
from k25serve.bench.load.plan import LoadPlan
from k25serve.server.errors import UserError

METRICS: tuple[Metric, ...] = get_args(Metric)
LEAST_PAIRS = 3  # below it the paired t over boots has one degree of freedom: it finds nothing but miracles
LEAST_UNITS = 2
LEVELS = (1, 8, 32, 128)
# Time per output token grows with concurrency: 12.1 ms at 1, 83 ms at 128 (vLLM 0.16 on 8x RTX PRO 6000).
TPOT_PER_STREAM = (83.3 / 12.1 - 1) / 127
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Design:
    """How an A/B is laid out. pairs: of boots, one of each arm. blocks: of the whole load in each boot.

    booted: at least one arm is started here; otherwise both run already and their turns are no boots.
    unit_sd: assumed standard deviation of a unit's log ratio. boot_s, tpot_s: assumed, for the hours.
    """

    load: LoadPlan
    pairs: int
    blocks: int
    booted: bool
    tokens: int
    seed: int = 0
    looks: int = 1
    spending: Spending = "obrien-fleming"
    alpha: float = 0.05
    power: float = 0.8
    unit_sd: float = 0.02
    boot_s: tuple[float, float] = (0.0, 0.0)
    tpot_s: float = 0.015

    def __post_init__(self) -> None:
        for option, value, least, most in (
            ("--pairs", self.pairs, 1, 1000),
            ("--blocks", self.blocks, 1, 1000),
            ("--looks", self.looks, 1, self.pairs),
        ):
            if not least <= value <= most:
                raise UserError(f"{option} {value}: must be from {least} to {most}")
        for option, number, top in (
            ("--alpha", self.alpha, 0.5),
            ("--power", self.power, 1),
            ("--unit-sd", self.unit_sd, 10),
        ):
            if not 0 < number < top:
                raise UserError(f"{option} {number}: must be above 0 and below {top}")
        if self.units < LEAST_UNITS:
            raise UserError(
                f"--pairs {self.pairs} --blocks {self.blocks}: one unit has no spread, so nothing could be said; "
                f"give at least {LEAST_UNITS} blocks, or {LEAST_PAIRS} pairs"
            )
        if self.look_units[0] < LEAST_UNITS:
            raise UserError(f"--looks {self.looks}: the first would see a single unit; give fewer looks or more pairs")

    @property
    def order(self) -> str:
        """Arms by turn: ABBA, so that a drift in time falls on both alike."""
        return "".join("AB" if pair % 2 == 0 else "BA" for pair in range(self.pairs))

    @property
    def scope(self) -> Scope:
        return "across boots" if self.booted and self.pairs >= LEAST_PAIRS else "within these boots"

    @property
    def units(self) -> int:
        return self.pairs if self.scope == "across boots" else self.pairs * self.blocks

    @property
    def look_pairs(self) -> tuple[int, ...]:
        """Pairs after which a verdict may be given."""
        return tuple(round(self.pairs * (i + 1) / self.looks) for i in range(self.looks))

    @property
    def look_units(self) -> tuple[int, ...]:
        return tuple(pairs * (self.units // self.pairs) for pairs in self.look_pairs)

    @property
    def tested(self) -> int:
        return len(self.load.cells()) * len(METRICS)

    def levels(self, hypotheses: int) -> tuple[float, ...]:
        """The nominal level of each look where `hypotheses` still share alpha."""
        fractions = tuple(units / self.units for units in self.look_units)
        return nominal_levels(fractions, self.alpha / hypotheses, self.spending)

    @property
    def detectable(self) -> float | None:
        """The gain found with the wanted power in one comparison, even if no other falls: the last look alone."""
        return detectable(self.units, self.unit_sd, self.levels(self.tested)[-1], self.power)

    @property
    def turn_s(self) -> float:
        """Assumed seconds of load in one turn, warm-up and parity left out."""
        return self.blocks * load_s(self.load, self.tokens, self.tpot_s)

    @property
    def hours(self) -> float:
        return self.pairs * (sum(self.boot_s) + 2 * self.turn_s) / HOUR_S

    def facts(self) -> PlanFacts:
        """For the result file."""
        fractions = tuple(units / self.units for units in self.look_units)
        return PlanFacts(
            order=self.order,
            pairs=self.pairs,
            blocks=self.blocks,
            units=self.units,
            scope=self.scope,
            cells=self.load.cells(),
            metrics=METRICS,
            tested=self.tested,
            alpha=self.alpha,
            spending=self.spending,
            looks=self.look_units,
            spent=tuple(spent(fraction, self.alpha, self.spending) for fraction in fractions),
            nominal=self.levels(1),
            unit_sd=self.unit_sd,
            power=self.power,
            detectable=self.detectable,
            hours=self.hours,
            seed=self.seed,
        )


def load_s(load: LoadPlan, tokens: int, tpot_s: float) -> float:
    """Seconds of a load, assumed: `tokens` an answer, `tpot_s` for each at concurrency 1."""
    return sum(
        math.ceil(load.count(cell) / cell.level) * tokens * tpot_s * (1 + TPOT_PER_STREAM * (cell.level - 1))
        for cell in load.cells()
    )
