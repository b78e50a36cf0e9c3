"""Whether an arm has to go. Pure."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from k25serve.server.gateway.experiment.binomial import at_least
from k25serve.server.gateway.experiment.settings import Guardrails
from k25serve.server.gateway.experiment.tally import Counts

_CHANCE = 0.001
_SLOWEST = 0.01
"""p99: the share of requests that may be above the limit."""
_DEVIATIONS = 3.09
"""The normal distribution's one in a thousand."""


class Trip(NamedTuple):
    """`detail`: what was seen and what is allowed, in words."""

    arm: str
    metric: str
    detail: str


def tripped(windows: Mapping[str, Counts], control: str, limits: Guardrails) -> list[Trip]:
    """The arms that have to go, each with its first reason. `windows`: each arm's counts over the last minutes."""
    trips = []
    for arm, counts in windows.items():
        if counts.requests >= limits.min_requests:
            beside = None if arm == control else windows.get(control)
            found = _first(arm, counts, beside, limits)
            if found is not None:
                trips.append(found)
    return trips


def _first(arm: str, counts: Counts, control: Counts | None, limits: Guardrails) -> Trip | None:
    over = f"in {limits.window_minutes} min"
    if limits.error_share is not None and _above(counts.errors, counts.requests, limits.error_share):
        seen = f"{counts.errors} of {counts.requests} requests failed {over}; at most {limits.error_share:.2%} may"
        return Trip(arm, "error_share", seen)
    if limits.ttft_p99_s is not None and _above(counts.slow, counts.first_tokens, _SLOWEST):
        seen = f"{counts.slow} of {counts.first_tokens} requests waited more than {limits.ttft_p99_s:g} s for the first"
        return Trip(arm, "ttft_p99_s", f"{seen} token {over}; at most {_SLOWEST:.0%} may")
    if limits.finish_excess is not None and control is not None and control.ends >= limits.min_requests:
        beside = control.odd_ends / control.ends
        if _above(counts.odd_ends, counts.ends, beside + limits.finish_excess):
            seen = f"{counts.odd_ends} of {counts.ends} answers ended neither with stop nor with a tool call {over}"
            allowed = f"the control's {beside:.2%} and {limits.finish_excess:.2%} more may"
            return Trip(arm, "finish_excess", f"{seen}; {allowed}")
    if limits.wasted_share is not None and _wasted(counts, limits.wasted_share):
        seen = f"{counts.wasted} of {counts.tokens} tokens were wasted {over}; at most {limits.wasted_share:.2%} may be"
        return Trip(arm, "wasted_share", seen)
    return None


def _above(k: int, n: int, limit: float) -> bool:
    return limit < 1 and at_least(k, n, limit) < _CHANCE


def _wasted(counts: Counts, limit: float) -> bool:
    """Whether the ratio is above the limit by more than its standard error (delta method) explains."""
    if not counts.tokens:
        return False
    ratio = counts.wasted / counts.tokens
    squares = counts.wasted_squared - 2 * ratio * counts.wasted_tokens + ratio**2 * counts.tokens_squared
    return ratio - _DEVIATIONS * math.sqrt(max(0.0, squares)) / counts.tokens > limit
