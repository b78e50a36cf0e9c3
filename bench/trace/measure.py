"""Time by kernel class for each step of one rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.classify import CLASSES, NOT_COMPUTE, KernelClass
from k25serve.bench.trace.events import DeviceEvents, Ints
from k25serve.bench.trace.intervals import Timeline, total
from k25serve.bench.trace.steps import Steps


@dataclass(frozen=True, slots=True)
class ClassTimes:
    """Times of one rank in ns, rows in the order of CLASSES.

    summed, union, exposed, launches [class, step]; kernel_sum, busy, span, unattributed [step].
    summed: durations added up, parallel streams twice. union: each moment once. exposed: the part of the union in which
    no computation of another class runs. busy: the union over all classes. span: first start to last end.
    """

    summed: Ints
    union: Ints
    exposed: Ints
    launches: Ints
    kernel_sum: Ints
    busy: Ints
    span: Ints
    first: Ints
    unattributed: Ints


def measure(device: DeviceEvents, classes: Sequence[KernelClass], steps: Steps) -> ClassTimes:
    """Times by class and step; `classes` is the class of each name. Events before the first step are left out."""
    inside = steps.of >= 0
    everything = bool(inside.all())
    step = steps.of if everything else steps.of[inside]
    start, end = (column if everything else column[inside] for column in (device.start, device.end))
    calls, names = (column if everything else column[inside] for column in (device.calls, device.name))
    kind = np.array([CLASSES.index(one.name) for one in classes], dtype=np.int8)[names]
    compute = ~np.isin(kind, [CLASSES.index(name) for name in NOT_COMPUTE])
    count, duration = len(steps), end - start
    timeline = Timeline(start, end, step, count)

    summed, unions, exposed, launches = [], [], [], []
    for index in range(len(CLASSES)):
        mine = kind == index
        others = compute & ~mine
        summed.append(total(duration[mine], step[mine], count))
        launches.append(total(calls[mine], step[mine], count))
        unions.append(timeline.covered(mine))
        # What the class adds to the time that other computation covers is what it is waited for.
        added = timeline.covered(mine | others) - timeline.covered(others) if mine.any() else np.zeros(count, np.int64)
        exposed.append(added)
    first, last = _edges(start, end, step, count)
    return ClassTimes(
        summed=np.stack(summed),
        union=np.stack(unions),
        exposed=np.stack(exposed),
        launches=np.stack(launches),
        kernel_sum=total(duration, step, count),
        busy=timeline.covered(np.ones(len(start), dtype=bool)),
        span=last - first,
        first=first,
        unattributed=total(steps.unattributed[inside], step, count),
    )


def _edges(start: Ints, end: Ints, step: NDArray[np.int32], count: int) -> tuple[Ints, Ints]:
    """First start and last end of each step; 0 and 0 where it has no event."""
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, end)
    empty = last < first
    first[empty] = last[empty] = 0
    return first, last
