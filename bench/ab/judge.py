"""Units -> comparisons, looks, outcome. Pure."""

import math
from collections.abc import Sequence
from typing import Literal

from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.result import Comparison, Look, Outcome
from k25serve.bench.ab.stats.holm import adjusted, rejected
from k25serve.bench.ab.stats.paired_t import PairedT, paired_t
from k25serve.bench.ab.stats.power import detectable
from k25serve.bench.ab.units import Paired

PRIMARY = "tokens_per_s"
WIDEST = math.log(1e6)


def judge(pairs: Sequence[Paired], design: Design, look: int) -> tuple[Comparison, ...]:
    """Every comparison as of the `look`-th look (from 0): Holm's steps, each at its own spending boundary."""
    steps = [design.levels(design.tested - j)[look] for j in range(len(pairs))]
    tests = [paired_t(pair.log_gains, steps[-1]) if pair.a else _nothing() for pair in pairs]
    p_values = [test.p for test in tests]
    fell, corrected = rejected(p_values, steps), adjusted(p_values)
    return tuple(
        Comparison(
            cell=pair.cell,
            metric=pair.metric,
            values_a=pair.a,
            values_b=pair.b,
            log_gains=pair.log_gains,
            gain=math.exp(test.mean),
            low=bound(test.low),
            high=bound(test.high),
            p=test.p,
            p_adjusted=corrected[i],
            detectable=detectable(test.n, test.sd, steps[0], design.power) if test.n > 1 else None,
            outcome=_word(fell[i], test.mean),
        )
        for i, (pair, test) in enumerate(zip(pairs, tests, strict=True))
    )


def look_at(comparisons: Sequence[Comparison], design: Design, look: int) -> Look:
    """Whether the A/B may stop: every throughput comparison is settled, or it was the last look."""
    primary = [one for one in comparisons if one.metric == PRIMARY]
    last = look == len(design.look_units) - 1
    return Look(
        units=design.look_units[look],
        nominal=design.levels(1)[look],
        rejected=sum(one.outcome != "not settled" for one in comparisons),
        stopped=last or all(one.outcome != "not settled" for one in primary),
    )


def overall(comparisons: Sequence[Comparison]) -> Outcome:
    """By throughput at the same load, cell by cell."""
    words = {one.outcome for one in comparisons if one.metric == PRIMARY} - {"not settled"}
    if words == {"faster"}:
        return "faster"
    if words == {"slower"}:
        return "slower"
    return "mixed" if words else "not settled"


def bound(log_gain: float) -> float | None:
    """An interval's end as a gain; None where it says nothing."""
    return math.exp(log_gain) if abs(log_gain) <= WIDEST else None


def _word(fell: bool, mean: float) -> Literal["faster", "slower", "not settled"]:
    if not fell:
        return "not settled"
    return "faster" if mean > 0 else "slower"


def _nothing() -> PairedT:
    return PairedT(0, 0.0, 0.0, 1.0, -math.inf, math.inf)
