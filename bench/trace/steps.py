"""Which forward step each device event belongs to.

The engine's own ranges decide where there are any: an event belongs to the range in which, or after which, it was
launched, so sampling counts to the step that made the logits, and a host that runs ahead does no harm. Without ranges,
a replayed graph is a step. The device's clock decides only for events whose launch the trace does not hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.classify import KernelClass
from k25serve.bench.trace.events import NO_CORRELATION, NO_TIME, Ints, RankEvents, Span
from k25serve.bench.trace.graphs import graph_steps
from k25serve.bench.trace.modes import UNKNOWN

RANGES, GRAPHS, WHOLE = "ranges of the engine", "graph replays", "none found: the whole trace is one step"


@dataclass(frozen=True, slots=True)
class Steps:
    """`of` [n]: the step of each device event, -1 before the first. `unattributed` [n]: 1 where only time told.

    `starts` [step]: when each step began on the host, ns.
    """

    modes: tuple[str, ...]
    labels: tuple[str, ...]
    starts: Ints
    of: NDArray[np.int32]
    unattributed: NDArray[np.int8]
    source: str

    def __len__(self) -> int:
        return len(self.modes)


def find_steps(events: RankEvents, classes: Sequence[KernelClass]) -> Steps:
    """Assign every device event of a rank to a step. `classes`: of each name in events.names."""
    launched = launch_times(events)
    known = launched != NO_TIME
    spans, source = outermost(events.spans), RANGES
    if not spans:
        spans, source = graph_steps(events, classes, launched), GRAPHS
    if not spans:
        spans, source = [Span(int(events.device.start.min()), int(events.device.end.max()), UNKNOWN, "")], WHOLE
        launched, known = events.device.start, np.ones(len(events.device), dtype=bool)
    starts = np.array([span.start for span in spans], dtype=np.int64)
    of = np.where(known, np.searchsorted(starts, launched, side="right") - 1, -1)
    of[~known] = _by_time(events.device.start, of, known, len(spans))[~known]
    return Steps(
        tuple(span.mode for span in spans),
        tuple(span.label for span in spans),
        starts,
        of.astype(np.int32),
        (~known).astype(np.int8),
        source,
    )


def launch_times(events: RankEvents) -> Ints:
    """When each device event was launched on the host, [n] ns, NO_TIME where the trace does not tell.

    A graph that was replayed without a record of the launch is taken as launched when its first kernel starts.
    """
    device, launches = events.device, events.launches
    if events.cpu:
        return device.start
    order = np.argsort(launches.correlation, kind="stable")
    known, at = launches.correlation[order], launches.at[order]
    place = np.searchsorted(known, device.correlation)
    inside = place < len(known)
    place[~inside] = 0
    if len(known):
        inside &= known[place] == device.correlation
    inside &= device.correlation != NO_CORRELATION
    launched = np.where(inside, at[place] if len(at) else NO_TIME, NO_TIME)
    if len(known) == 0:
        launched = _first_start(device.start, device.correlation)
    return launched


def _first_start(start: Ints, correlation: Ints) -> Ints:
    """Start of the first event that shares an event's correlation."""
    names, group = np.unique(correlation, return_inverse=True)
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, group, start)
    return np.where(correlation == NO_CORRELATION, NO_TIME, first[group])


def outermost(spans: Sequence[Span]) -> list[Span]:
    """Ranges that lie in no other range, by start."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _by_time(start: Ints, of: Ints, known: NDArray[np.bool_], steps: int) -> Ints:
    """For each event, the last step whose first launched event had started by then."""
    first = np.full(steps, np.iinfo(np.int64).max)
    inside = known & (of >= 0)
    np.minimum.at(first, of[inside], start[inside])
    # A step without events takes nothing; later steps keep their order.
    first = np.minimum.accumulate(first[::-1])[::-1]
    return np.searchsorted(first, start, side="right") - 1
