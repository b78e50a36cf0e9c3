"""What an experiment's state file says, computed from its minutes in order, as often as one likes."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from k25serve.server.gateway.experiment.comparison import Comparison
from k25serve.server.gateway.experiment.levels import FIRST_LOOK
from k25serve.server.gateway.experiment.ratio import ALARM, ratio_p_value
from k25serve.server.gateway.experiment.settings import ExperimentSettings, Metric
from k25serve.server.gateway.experiment.store import Stop, Store
from k25serve.server.gateway.experiment.sums import Sums
from k25serve.server.gateway.experiment.tally import Counts, Tally

_MOVED_ALPHA = 0.01


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio, arm / control, and its confidence sequence; 0 and None: no limit yet."""

    ratio: float
    low: float
    high: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """One arm against the control in one metric.

    `raw`: as it was. `adjusted`: at equal covariates; it decides. `p_value`: always valid, of `adjusted`.
    `found_at`: blocks until a difference was first found at the comparison's part of alpha; None: not yet.
    `detectable`: the smallest relative difference that as many blocks find with a power of 0.8; None: too few blocks.
    `moved`: covariates that differ between the arms, which `adjusted` holds equal and `raw` doesn't.
    """

    arm: str
    metric: Metric
    blocks: int
    raw: Interval
    adjusted: Interval
    p_value: float
    found_at: int | None
    detectable: float | None
    moved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`sessions`: conversations of each arm. `ratio_p_value`: always valid, of their shares being the weights.

    `last_seen`: Unix time at which a gateway last wrote.
    """

    settings: ExperimentSettings
    first_look: int
    last_seen: float | None
    stops: tuple[Stop, ...]
    totals: Mapping[str, Counts]
    sessions: Mapping[str, int]
    ratio_p_value: float
    effects: tuple[Effect, ...]

    @property
    def ratio_broken(self) -> bool:
        """An arm lost conversations, so the rest are not comparable."""
        return self.ratio_p_value < ALARM

    @property
    def believable(self) -> bool:
        """Whether the effects mean anything."""
        return not self.ratio_broken and not (self.settings.mode == "aa" and any(e.found_at for e in self.effects))


def analyse(store: Store, now: float) -> Analysis:
    """Looks at whole minutes before `now`, Unix seconds, and of an arm that was stopped at those before its stop.

    Raises sqlite3.Error.
    """
    settings, stops = store.settings(), store.stops()
    until = {stop.arm: int(stop.at // 60) for stop in stops}
    now_minute = int(now // 60)
    totals: dict[str, Counts] = {}
    comparisons = {
        (arm, metric): Comparison(len(settings.covariates), settings.comparison_alpha)
        for arm in settings.treatments
        for metric in settings.metrics
    }
    for minute, tallies in _minutes(store.tallies()):
        for arm, tally in tallies.items():
            totals.setdefault(arm, Counts()).merge(tally.counts)
        for (arm, metric), comparison in comparisons.items():
            if minute < min(until.get(arm, now_minute), until.get(settings.control, now_minute)):
                comparison.minute(minute, *(_sums(tallies, one, metric) for one in (settings.control, arm)))
    dealt = store.sessions(min([minute for arm, minute in until.items() if arm in settings.weights] + [now_minute]))
    return Analysis(
        settings=settings,
        first_look=FIRST_LOOK,
        last_seen=store.last_seen(),
        stops=tuple(stops),
        totals=totals,
        sessions={arm: sum(stretch.get(arm, 0) for stretch in dealt) for arm in settings.weights},
        ratio_p_value=ratio_p_value(dealt, settings.weights),
        effects=tuple(_effect(arm, metric, one, settings) for (arm, metric), one in comparisons.items()),
    )


def _minutes(tallies: Iterable[tuple[int, str, Tally]]) -> Iterator[tuple[int, dict[str, Tally]]]:
    for minute, rows in groupby(tallies, lambda row: row[0]):
        yield minute, {arm: tally for _, arm, tally in rows}


def _sums(tallies: Mapping[str, Tally], arm: str, metric: Metric) -> Sums:
    tally = tallies.get(arm)
    return Sums() if tally is None else tally.sums.get(metric, Sums())


def _effect(arm: str, metric: Metric, comparison: Comparison, settings: ExperimentSettings) -> Effect:
    alpha, adjusted = settings.comparison_alpha, comparison.adjusted
    detectable = adjusted.detectable(alpha)
    moved = []
    for covariate, levels in zip(settings.covariates, comparison.moved, strict=True):
        low, high = levels.interval(_MOVED_ALPHA)
        if low > 0 or high < 0:
            moved.append(covariate)
    return Effect(
        arm=arm,
        metric=metric,
        blocks=adjusted.n,
        raw=_interval(comparison.raw.mean, comparison.raw.interval(alpha)),
        adjusted=_interval(adjusted.mean, adjusted.interval(alpha)),
        p_value=adjusted.p_value,
        found_at=comparison.found_at,
        detectable=None if math.isinf(detectable) else math.expm1(detectable),
        moved=tuple(moved),
    )


def _interval(mean: float, bounds: tuple[float, float]) -> Interval:
    low, high = bounds
    return Interval(math.exp(mean), math.exp(low), None if math.isinf(high) else math.exp(high))
