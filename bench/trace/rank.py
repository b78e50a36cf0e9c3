"""One rank's file -> its report, and what comparing the ranks needs. The events themselves are let go."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.all_reduce import Calls, all_reduce_calls, all_reduce_rows
from k25serve.bench.trace.classify import ALL_REDUCE, CLASSES, COMMUNICATION, UNCLASSIFIED, Classifier, KernelClass
from k25serve.bench.trace.events import RankEvents
from k25serve.bench.trace.measure import ClassTimes, measure
from k25serve.bench.trace.modes import DRAFT, DRAFT_EXTEND, in_order
from k25serve.bench.trace.report import (
    ClassRow,
    Headline,
    ModeReport,
    RankReport,
    Timeline,
    TimelineEvent,
    Unclassified,
)
from k25serve.bench.trace.steps import Steps, find_steps

MS = 1e6  # ns


@dataclass(frozen=True, slots=True)
class RankResult:
    """A rank's report, and by mode its all-reduce calls and the timeline of a median step.

    clock: the base of its time stamps and the host's name, "" where the trace does not tell.
    """

    report: RankReport
    calls: dict[str, Calls]
    timelines: dict[str, Timeline]
    communicates: bool
    clock: tuple[str, str]
    device: str


def read_rank(label: str, events: RankEvents, classifier: Classifier) -> RankResult:
    """Measure one rank."""
    classes = [classifier.classify(name) for name in events.names]
    steps = find_steps(events, classes)
    times = measure(events.device, classes, steps)
    full = times.launches.sum(axis=0) > 0
    modes = in_order({mode for mode, has_events in zip(steps.modes, full, strict=True) if has_events})
    reports, calls, timelines = [], {}, {}
    for mode in modes:
        chosen = np.flatnonzero(full & np.array([one == mode for one in steps.modes]))
        reports.append(_mode_report(mode, chosen, events, classes, steps, times))
        calls[mode] = all_reduce_calls(events.device, classes, steps, chosen)
        timelines[mode] = _timeline(label, mode, chosen, events, classes, steps, times)
    unknown, unknown_share = _unclassified(events, classes)
    device = events.device
    header = events.header
    return RankResult(
        report=RankReport(
            rank=label,
            file=events.path.name,
            steps_from=steps.source,
            modes=tuple(reports),
            outside_steps_ms=float((device.end - device.start)[steps.of < 0].sum()) / MS,
            unclassified=unknown,
            unclassified_share=unknown_share,
            skipped_events=len(events.skipped),
            unknown_events=dict(events.unknown),
            events=events.events_seen,
            bytes_read=events.bytes_read,
        ),
        calls=calls,
        timelines=timelines,
        communicates=any(one.name in COMMUNICATION for one in classes),
        clock=(str(header.get("baseTimeNanoseconds", "")), str(header.get("host_name", ""))),
        device="cpu" if events.cpu else _device_name(events),
    )


def _mode_report(
    mode: str,
    chosen: NDArray[np.int64],
    events: RankEvents,
    classes: Sequence[KernelClass],
    steps: Steps,
    times: ClassTimes,
) -> ModeReport:
    def mean(values: NDArray[np.int64]) -> float:
        return float(values[..., chosen].sum()) / len(chosen)

    kernel_sum, busy, span = mean(times.kernel_sum), mean(times.busy), mean(times.span)
    rows = []
    for index, name in enumerate(CLASSES):
        summed, union, exposed = (mean(one[index]) for one in (times.summed, times.union, times.exposed))
        rows.append(
            ClassRow(
                name=name,
                launches=mean(times.launches[index]),
                summed_ms=summed / MS,
                union_ms=union / MS,
                exposed_ms=exposed / MS,
                hidden_ms=(union - exposed) / MS,
                share_of_kernel_sum=_share(summed, kernel_sum),
            )
        )
    by_name = {row.name: row for row in rows}
    mine = by_name[ALL_REDUCE]
    parts = all_reduce_rows(events.device, classes, steps, chosen, kernel_sum)
    return ModeReport(
        mode=mode,
        steps=len(chosen),
        kernel_sum_ms=kernel_sum / MS,
        busy_ms=busy / MS,
        span_ms=span / MS,
        span_ms_median=float(np.median(times.span[chosen])) / MS,
        span_ms_max=float(times.span[chosen].max()) / MS,
        gap_ms=(span - busy) / MS,
        period_ms=_period(chosen, steps, times),
        launches=mean(times.launches.sum(axis=0)),
        host_launches=mean(_host_launches(events, steps)),
        unattributed_launches=mean(times.unattributed),
        cast_share=by_name["cast"].share_of_kernel_sum,
        headline=Headline(
            share_of_kernel_sum=mine.share_of_kernel_sum,
            share_of_busy=_share(mine.union_ms, busy / MS),
            share_of_step=_share(mine.union_ms, span / MS),
            exposed_share_of_step=_share(mine.exposed_ms, span / MS),
        ),
        classes=tuple(rows),
        all_reduce=parts,
        all_reduce_calls=sum(row.calls for row in parts),
        all_reduce_ms=mine.summed_ms,
        step_ms_by_class=tuple(
            tuple(round(value / MS, 4) for value in column) for column in times.summed[:, chosen].T.tolist()
        ),
    )


def _host_launches(events: RankEvents, steps: Steps) -> NDArray[np.int64]:
    step = np.searchsorted(steps.starts, events.launches.at, side="right") - 1
    return np.bincount(step[step >= 0], minlength=len(steps))


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _period(chosen: NDArray[np.int64], steps: Steps, times: ClassTimes) -> float | None:
    """Mean time from a step to the next of its mode with nothing but draft steps between; None without two of them.

    Under speculation this is the cycle: draft, verify, draft again.
    """
    starts = [
        (times.first[here], times.first[there])
        for here, there in pairwise(chosen.tolist())
        if all(steps.modes[step] in (DRAFT, DRAFT_EXTEND) for step in range(here + 1, there))
    ]
    return float(np.mean([there - here for here, there in starts])) / MS if starts else None


def _unclassified(events: RankEvents, classes: Sequence[KernelClass]) -> tuple[tuple[Unclassified, ...], float]:
    device = events.device
    time = np.bincount(device.name, weights=device.end - device.start, minlength=len(classes))
    whole = float(time.sum())
    unknown = [i for i, one in enumerate(classes) if one.family == UNCLASSIFIED]
    rows = sorted(
        (Unclassified(name=events.names[i].name, share=_share(float(time[i]), whole)) for i in unknown),
        key=lambda row: -row.share,
    )
    return tuple(rows[:50]), _share(float(time[unknown].sum()), whole)


def _timeline(
    rank: str,
    mode: str,
    chosen: NDArray[np.int64],
    events: RankEvents,
    classes: Sequence[KernelClass],
    steps: Steps,
    times: ClassTimes,
) -> Timeline:
    spans = times.span[chosen]
    shown = int(chosen[np.argsort(spans, kind="stable")[(len(spans) - 1) // 2]])
    rows = events.device.take(steps.of == shown)
    columns = zip(*(column.tolist() for column in (rows.start, rows.end, rows.stream, rows.name)), strict=True)
    return Timeline(
        rank=rank,
        mode=mode,
        label=steps.labels[shown],
        events=tuple(
            TimelineEvent(
                start_us=(start - int(times.first[shown])) / 1000,
                dur_us=(end - start) / 1000,
                stream=stream,
                kernel_class=classes[name].name,
                name=events.names[name].name[:120],
            )
            for start, end, stream, name in sorted(columns)
        ),
    )


def _device_name(events: RankEvents) -> str:
    properties = events.header.get("deviceProperties")
    first = properties[0] if isinstance(properties, list) and properties else None
    return str(first.get("name") or "gpu") if isinstance(first, dict) else "gpu"
