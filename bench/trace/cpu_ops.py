"""Host operators of a trace without a device -> rows like device events, each the operator's own time."""

import numpy as np

from k25serve.bench.trace.events import NO_CORRELATION, DeviceEvents, Ints


def self_time(start: Ints, dur: Ints, name: Ints, thread: Ints) -> DeviceEvents:
    """Cut nested operators into pieces in which the innermost one runs.

    start, dur [n] ns; name [n] ids; thread [n]. The pieces of one operator add up to its self time, and only the first
    counts as a call.
    """
    pieces: list[tuple[int, int, int, int, int]] = []  # start, end, name, thread, call
    for one in np.unique(thread).tolist():
        rows = np.flatnonzero(thread == one)
        # A parent that starts with its child comes first: it is the longer one.
        rows = rows[np.lexsort((-dur[rows], start[rows]))]
        _cut(zip(start[rows].tolist(), dur[rows].tolist(), name[rows].tolist(), strict=True), one, pieces)
    columns = np.array(sorted(pieces), dtype=np.int64).reshape(-1, 5)
    zeros = np.zeros(len(columns), np.int64)
    return DeviceEvents(
        start=columns[:, 0],
        end=columns[:, 1],
        name=columns[:, 2].astype(np.int32),
        stream=columns[:, 3].astype(np.int32),
        correlation=zeros + NO_CORRELATION,
        nbytes=zeros.astype(np.int32),
        calls=columns[:, 4].astype(np.int8),
    )


def _cut(ops: "zip[tuple[int, int, int]]", thread: int, pieces: list[tuple[int, int, int, int, int]]) -> None:
    stack: list[list[int]] = []  # end, name, 1 until its first piece is out
    at = 0

    def run_to(until: int) -> None:
        nonlocal at
        while stack and at < until:
            end, name, call = stack[-1]
            stop = min(end, until)
            if stop > at:
                pieces.append((at, stop, name, thread, call))
                stack[-1][2] = 0
                at = stop
            if end <= at:
                stack.pop()
        at = max(at, until)

    for start, dur, name in ops:
        run_to(start)
        stack.append([start + dur, name, 1])
    run_to(max((end for end, _, _ in stack), default=at))
