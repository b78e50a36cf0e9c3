"""Throughput of both arms at one time per output token: concurrency is no user's wish, latency is. Pure."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from k25serve.bench.ab.judge import bound
from k25serve.bench.ab.result import SameLatency
from k25serve.bench.ab.stats.paired_t import paired_t
from k25serve.bench.ab.units import Paired
from k25serve.bench.load.record import MIXED

LEVEL = 0.05


def same_latency(pairs: Sequence[Paired]) -> tuple[SameLatency, ...]:
    """At each of A's own latencies that lies between B's measured ones, by context; log-log between levels.

    Each unit is read off its own two curves, so the interval is the paired one.
    """
    found = []
    for context in sorted({pair.cell.context_tokens for pair in pairs}):
        cells = [pair for pair in pairs if pair.cell.context_tokens == context and pair.cell.prompt_class == MIXED]
        rate = {pair.cell.level: pair for pair in cells if pair.metric == "tokens_per_s"}
        wait = {pair.cell.level: pair for pair in cells if pair.metric == "tpot"}
        levels = sorted(rate.keys() & wait.keys())
        units = min((min(len(rate[level].a), len(wait[level].a)) for level in levels), default=0)
        if len(levels) < 2 or not units:
            continue
        for level in levels:
            if (one := _at(_median(wait[level].a), rate, wait, levels, units)) is not None:
                found.append(one)
    return tuple(found)


def _at(
    tpot: float, rate: dict[int, Paired], wait: dict[int, Paired], levels: Sequence[int], units: int
) -> SameLatency | None:
    values = []
    for unit in range(units):
        a = _read([(wait[level].a[unit], rate[level].a[unit]) for level in levels], tpot)
        b = _read([(wait[level].b[unit], rate[level].b[unit]) for level in levels], tpot)
        if a is not None and b is not None:
            values.append((a, b))
    # A unit whose curve doesn't reach that latency would choose the others.
    if len(values) < units:
        return None
    test = paired_t([math.log(b / a) for a, b in values], LEVEL)
    return SameLatency(
        tpot_s=tpot,
        tokens_per_s_a=_median([a for a, _ in values]),
        tokens_per_s_b=_median([b for _, b in values]),
        gain=math.exp(test.mean),
        low=bound(test.low),
        high=bound(test.high),
    )


def _read(curve: Sequence[tuple[float, float]], tpot: float) -> float | None:
    """The curve's throughput at `tpot`; None beyond its ends, or where latency does not rise with the load."""
    waits = [wait for wait, _ in curve]
    if any(later <= earlier for earlier, later in itertools.pairwise(waits)):
        return None
    if not waits[0] <= tpot <= waits[-1]:
        return None
    logs = np.log([rate for _, rate in curve])
    return float(np.exp(np.interp(math.log(tpot), np.log(waits), logs)))


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
