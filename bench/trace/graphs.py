"""Steps of a trace whose engine marked none: replayed graphs, and what was launched between them.

The graph that takes the most time is the target model; one with under a quarter of its kernels is a draft model's.
Between two replays, work with attention or expert GEMMs in it is a prefill; anything else (sampling, copies) belongs to
the replay before it. These are guesses, and the report says so.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.classify import KernelClass
from k25serve.bench.trace.events import NO_CORRELATION, NO_TIME, Ints, RankEvents, Span
from k25serve.bench.trace.modes import DECODE, DRAFT, EXTEND, VERIFY

DRAFT_KERNELS_AT_MOST = 0.25
MODEL_CLASSES = ("attention", "moe_gemm")


def graph_steps(events: RankEvents, classes: Sequence[KernelClass], launched: Ints) -> list[Span]:
    """One span for each replay and each prefill, by start; empty where the trace has no graph."""
    replayed = _replayed(events)
    if not replayed.any():
        return []
    start, busy, kernels = _replays(events, launched, replayed)
    # The size of graph on which most time is spent.
    sizes = np.unique(kernels)
    target = int(sizes[np.argmax([busy[kernels == size].sum() for size in sizes])])
    small = kernels < DRAFT_KERNELS_AT_MOST * target
    mode = VERIFY if small.any() else DECODE
    steps = [
        Span(int(at), int(at + lasted), DRAFT if is_small else mode, f"graph of {count} kernels")
        for at, lasted, count, is_small in zip(start, busy, kernels, small, strict=True)
    ]
    return sorted([*steps, *_prefills(events, classes, launched, replayed, np.sort(start))])


def _replayed(events: RankEvents) -> NDArray[np.bool_]:
    """Device events of graph replays: those that share a correlation, or whose launch was a graph's."""
    correlation = events.device.correlation
    _, group, counts = np.unique(correlation, return_inverse=True, return_counts=True)
    graphs = events.launches.correlation[events.launches.graph == 1]
    found: NDArray[np.bool_] = (counts[group] > 1) | np.isin(correlation, graphs)
    found &= correlation != NO_CORRELATION
    return found


def _replays(events: RankEvents, launched: Ints, replayed: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Start, kernel time and number of kernels of each replay, in ns."""
    rows, at = events.device.take(replayed), launched[replayed]
    names, group = np.unique(rows.correlation, return_inverse=True)
    start = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(start, group, np.where(at == NO_TIME, rows.start, at))
    busy = np.bincount(group, weights=rows.end - rows.start).astype(np.int64)
    return start, busy, np.bincount(group)


def _prefills(
    events: RankEvents, classes: Sequence[KernelClass], launched: Ints, replayed: NDArray[np.bool_], replays: Ints
) -> list[Span]:
    is_model = np.array([one.name in MODEL_CLASSES for one in classes], dtype=bool)
    eager = ~replayed & (launched != NO_TIME) & is_model[events.device.name]
    gap = np.searchsorted(replays, launched[eager], side="right")
    found = []
    for one in np.unique(gap):
        times = launched[eager][gap == one]
        found.append(Span(int(times.min()), int(times.max()), EXTEND, "eager launches"))
    return found
