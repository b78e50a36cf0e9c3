"""An analysis in words and tables. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.table import Table

from k25serve.server.gateway.experiment.analysis import Analysis, Effect, Interval
from k25serve.server.gateway.experiment.store import BY_HAND

_METRICS = {"tpot": "time per output token", "ttft": "time to first token"}
_SILENT_S = 15
"""A gateway that runs has written within it."""


def sentences(analysis: Analysis) -> Iterator[str]:
    """What was found, the most important first."""
    settings = analysis.settings
    if analysis.ratio_broken:
        yield (
            "The sample ratio is broken: an arm lost conversations, so what is left of it can't be compared. Find out "
            "why (an arm that was down, full, or failed over) and begin anew."
        )
    for effect in analysis.effects:
        yield _sentence(effect, settings.control, analysis.first_look, aa=settings.mode == "aa")
        if effect.moved:
            yield (
                f"{effect.arm} also differs in {', '.join(effect.moved)}: the figure above is at equal "
                f"{', '.join(effect.moved)}; without that it is {_percent(effect.raw)}."
            )
    for stop in analysis.stops:
        yield f"{stop.arm} gets no more requests since {_time(stop.at)}: {stop.reason}: {stop.detail}."


def state(analysis: Analysis, now: float) -> str:
    """Whether the experiment goes on."""
    if analysis.stops and analysis.stops[-1].reason == BY_HAND:
        going = "stopped"
    elif set(analysis.settings.weights) - {stop.arm for stop in analysis.stops} == {analysis.settings.control}:
        going = "only the control is left" if len(analysis.settings.weights) > 1 else "shadow"
    else:
        going = "running"
    if analysis.last_seen is None:
        return f"{going}; no gateway has written yet"
    if now - analysis.last_seen > _SILENT_S:
        return f"{going}; no gateway has written since {_time(analysis.last_seen)}"
    return f"{going}; a gateway is writing"


def effects_table(analysis: Analysis) -> Table:
    level = 1 - analysis.settings.comparison_alpha
    table = Table(title=f"ratios to {analysis.settings.control}, with {level:.2%} confidence at every look")
    for column in ("arm", "metric", "blocks", "at equal covariates", "as it was", "p", "80 % power finds"):
        table.add_column(column, justify="left" if column in ("arm", "metric") else "right")
    for one in analysis.effects:
        finds = "-" if one.detectable is None else f"{one.detectable:.1%}"
        figures = (_figures(one.adjusted), _figures(one.raw), f"{one.p_value:.3g}", finds)
        table.add_row(one.arm, one.metric, str(one.blocks), *figures)
    return table


def arms_table(analysis: Analysis) -> Table:
    settings, whole = analysis.settings, sum(analysis.settings.weights.values())
    title = f"sample ratio: p = {analysis.ratio_p_value:.3g}, at every look"
    table = Table(title=title)
    table.add_column("arm")
    for column in ("share", "conversations", "requests", "failed", "moved in", "odd ends", "wasted tokens", "now"):
        table.add_column(column, justify="right")
    stopped = {stop.arm: stop.reason for stop in analysis.stops}
    for arm in dict.fromkeys((settings.control, *settings.treatments)):
        shadow = arm not in settings.weights
        share = "copies" if shadow else f"{settings.weights[arm] / whole:.1%}"
        counts = analysis.totals.get(arm)
        figures = ["0"] * 5
        if counts is not None:
            wasted = f"{counts.wasted / counts.tokens:.1%}" if counts.tokens else "-"
            figures = [*map(str, (counts.requests, counts.errors, counts.moved, counts.odd_ends)), wasted]
        conversations = "-" if shadow else str(analysis.sessions[arm])
        table.add_row(arm, share, conversations, *figures, stopped.get(arm, "on"))
    return table


def _sentence(effect: Effect, control: str, first_look: int, *, aa: bool) -> str:
    what = f"{effect.arm}'s {_METRICS[effect.metric]}"
    if effect.blocks < first_look:
        return f"{what}: too early, {effect.blocks} of at least {first_look} blocks."
    if effect.found_at is not None:
        found = f"{what} differs from {control}'s: {_percent(effect.adjusted)}, found after {effect.found_at} blocks."
        return f"A/A failed: {found} Equal arms don't differ: the measurement can't be trusted." if aa else found
    finds = "" if effect.detectable is None else f" One of {effect.detectable:.1%} would have been found (power 0.8)."
    return f"{what}: no difference from {control}'s found, {_percent(effect.adjusted)}.{finds}"


def _percent(interval: Interval) -> str:
    high = "no limit" if interval.high is None else f"{interval.high - 1:+.1%}"
    return f"{interval.ratio - 1:+.1%} ({interval.low - 1:+.1%} to {high})"


def _figures(interval: Interval) -> str:
    high = "inf" if interval.high is None else f"{interval.high:.3f}"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {high})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
