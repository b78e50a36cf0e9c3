"""The all-reduces of a step: by implementation on one rank, and what the ranks wait for each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.classify import ALL_REDUCE, KernelClass
from k25serve.bench.trace.events import DeviceEvents, Ints
from k25serve.bench.trace.report import AllReduceRow, Wait
from k25serve.bench.trace.steps import Steps

MS = 1e6  # ns
# Calls of one all-reduce overlap on all ranks. Clocks that say otherwise by more than this are not one clock.
CLOCK_TOLERANCE_NS = 5_000


@dataclass(frozen=True, slots=True)
class Calls:
    """All-reduce calls of one rank in the steps of one mode, in order: step [n] counted from 0, start, duration [n] ns.

    Kept for every rank until all are read, so no wider than need be.
    """

    step: NDArray[np.int32]
    start: Ints
    duration: NDArray[np.int32]


def all_reduce_rows(
    device: DeviceEvents,
    classes: Sequence[KernelClass],
    steps: Steps,
    chosen: NDArray[np.int64],
    kernel_sum: float,
) -> tuple[AllReduceRow, ...]:
    """One row for each implementation, averaged over the chosen steps; `kernel_sum` in ns a step."""
    inside = np.isin(steps.of, chosen)
    rows = []
    for family in dict.fromkeys(one.family for one in classes if one.name == ALL_REDUCE):
        ids = [i for i, one in enumerate(classes) if one.name == ALL_REDUCE and one.family == family]
        mine = device.take(inside & np.isin(device.name, ids))
        if len(mine) == 0:
            continue
        duration = float((mine.end - mine.start).sum())
        calls = int(mine.calls.sum()) if any(classes[i].is_call for i in ids) else 0
        told = mine.nbytes[mine.nbytes > 0]
        rows.append(
            AllReduceRow(
                family=family,
                calls=calls / len(chosen),
                us_per_call=duration / calls / 1000 if calls else None,
                total_ms=duration / len(chosen) / MS,
                share_of_kernel_sum=duration / len(chosen) / kernel_sum if kernel_sum else 0.0,
                bytes_per_call=float(np.median(told)) if len(told) else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.total_ms))


def all_reduce_calls(
    device: DeviceEvents, classes: Sequence[KernelClass], steps: Steps, chosen: NDArray[np.int64]
) -> Calls:
    """The calls in the chosen steps, by step and start."""
    ids = [i for i, one in enumerate(classes) if one.name == ALL_REDUCE and one.is_call]
    mine = np.flatnonzero(np.isin(steps.of, chosen) & np.isin(device.name, ids))
    step = np.searchsorted(chosen, steps.of[mine])
    order = np.lexsort((device.start[mine], step))
    mine = mine[order]
    duration = np.minimum(device.end[mine] - device.start[mine], np.iinfo(np.int32).max)
    return Calls(step[order].astype(np.int32), device.start[mine], duration.astype(np.int32))


def compare_ranks(calls: Mapping[str, Calls], clocks: Mapping[str, tuple[str, str]]) -> tuple[Wait | None, str]:
    """What the ranks wait, and a warning ("" for none). `clocks`: base and host of each rank's clock."""
    ranks = list(calls)
    if len(ranks) < 2 or any(len(one.step) == 0 for one in calls.values()):
        return None, ""
    first = calls[ranks[0]]
    counts = {rank: np.bincount(one.step) for rank, one in calls.items()}
    if any(not np.array_equal(count, counts[ranks[0]]) for count in counts.values()):
        listed = ", ".join(f"{rank}: {len(calls[rank].step)} in {len(counts[rank])} steps" for rank in ranks)
        return None, f"ranks did not make the same all-reduces ({listed}), so their waits are not compared"
    durations = np.stack([calls[rank].duration.astype(np.int64) for rank in ranks])  # [rank, call]
    starts = np.stack([calls[rank].start for rank in ranks])
    whole = float(durations.sum())
    wait = (durations - durations.min(axis=0)).sum(axis=1) / (int(first.step.max()) + 1)
    skew, clock = _skew(starts, durations, list(clocks.values()))
    return (
        Wait(
            calls_compared=durations.shape[1],
            wait_ms_by_rank={rank: float(one) / MS for rank, one in zip(ranks, wait, strict=True)},
            share_of_all_reduce=float(wait.sum()) * (int(first.step.max()) + 1) / whole if whole else 0.0,
            latest_rank=ranks[int(np.argmin(wait))],
            skew_us_median=None if skew is None else float(np.median(skew)) / 1000,
            skew_us_max=None if skew is None else float(skew.max()) / 1000,
            clock=clock,
        ),
        "",
    )


def _skew(starts: Ints, durations: Ints, clocks: Sequence[tuple[str, str]]) -> tuple[Ints | None, str]:
    """First to last start of each call in ns, where one clock serves all ranks, and what was found of the clocks."""
    if len(set(clocks)) > 1 or not clocks[0][0]:
        return None, "no common base: start times of different ranks are not compared"
    apart = starts.max(axis=0) - (starts + durations).min(axis=0)
    if apart.max() > CLOCK_TOLERANCE_NS:
        return None, (
            f"the base is common but the clocks are not: an all-reduce ends on one rank {apart.max() / 1000:.0f} us "
            "before it starts on another, so start times are not compared"
        )
    return starts.max(axis=0) - starts.min(axis=0), "common base"
