"""A latency curve as a start-up time and a time per byte."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.comm.report import Fit, Sample

KIB = 1024
Floats = NDArray[np.float64]


def fit(samples: Sequence[Sample]) -> Fit | None:
    """Fit one operation's medians over size; None under three sizes, where the residual would say nothing.

    The error is taken relative to the time, so that small messages, which decoding sends, weigh as much as large ones.
    """
    if len({sample.nbytes for sample in samples}) < 3:
        return None
    size = np.array([sample.nbytes / KIB for sample in samples])
    time = np.array([sample.median_us for sample in samples])
    columns = np.stack([np.ones_like(size), size], axis=1)
    alpha, beta = two_terms(columns, time, time)
    residual = (alpha + beta * size) / time - 1
    return Fit(
        operation=samples[0].operation,
        graph=samples[0].graph,
        alpha_us=alpha,
        beta_us_per_kib=beta,
        bandwidth_gb_s=KIB / beta / 1000 if beta > 0 else None,
        residual_rms=float(np.sqrt(np.mean(residual**2))),
        residual_worst=float(np.abs(residual).max()),
        points=len(samples),
        smallest=min(sample.nbytes for sample in samples),
        largest=max(sample.nbytes for sample in samples),
    )


def two_terms(columns: Floats, target: Floats, scale: Floats) -> tuple[float, float]:
    """x, y >= 0 so that columns [n, 2] @ (x, y) is nearest to target [n], errors counted in units of scale [n]."""
    weighted, wanted = columns / scale[:, None], target / scale
    candidates = [np.linalg.lstsq(weighted, wanted, rcond=None)[0], np.zeros(2)]
    for index in range(2):  # one term alone
        alone = np.zeros(2)
        alone[index] = (weighted[:, index] @ wanted) / (weighted[:, index] @ weighted[:, index])
        candidates.append(alone)
    allowed = [one for one in candidates if (one >= 0).all()]
    best = min(allowed, key=lambda one: float(((weighted @ one - wanted) ** 2).sum()))
    return float(best[0]), float(best[1])


def fits(samples: Iterable[Sample]) -> tuple[Fit, ...]:
    """One fit for each operation, with graphs and without."""
    groups: dict[tuple[str, bool], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.operation, sample.graph), []).append(sample)
    found = (fit(group) for group in groups.values())
    return tuple(one for one in found if one is not None)


def slowest(by_rank: Iterable[Sample]) -> tuple[Sample, ...]:
    """Of each operation, size and graph, the rank with the longest median: a collective is as fast as that one."""
    kept: dict[tuple[str, int, bool], Sample] = {}
    for sample in by_rank:
        key = (sample.operation, sample.nbytes, sample.graph)
        if key not in kept or sample.median_us > kept[key].median_us:
            kept[key] = sample
    return tuple(kept.values())
