"""Where a step's kernel time goes."""

from typing import NamedTuple

from k25serve.bench.report.bodies import GpuTrace
from k25serve.bench.report.document import Block, Figures, Table
from k25serve.bench.report.numbers import number, optional
from k25serve.bench.report.plots.chart import Bar, StackedBars
from k25serve.bench.report.sources import Source, Sources
from k25serve.bench.trace.classify import CLASSES
from k25serve.bench.trace.page import COLOURS
from k25serve.bench.trace.report import ModeReport, RankReport, TraceReport


def steps(sources: Sources) -> tuple[Block, ...]:
    """One bar a forward mode of one rank, by kernel class: the rank that each trace shows, else its first."""
    found: list[tuple[Source, list[_Step]]] = [
        (source, [_Step(mode.mode, report.device, mode) for mode in _shown(report).modes])
        for source, report in sources.of(TraceReport)
    ]
    found += [
        (
            source,
            [
                _Step(f"{arm} {mode.mode}", one.report.device, mode)
                for arm, one in data.arms.items()
                for mode in one.report.ranks[0].modes
            ],
        )
        for source, data in sources.of(GpuTrace)
    ]
    return tuple(block for source, rows in found for block in _blocks(source, rows))


class _Step(NamedTuple):
    name: str
    device: str
    mode: ModeReport


def _shown(report: TraceReport) -> RankReport:
    return next(rank for rank in report.ranks if rank.rank == report.timeline.rank)


def _blocks(source: Source, rows: list[_Step]) -> tuple[Block, ...]:
    bars = tuple(Bar(row.name, tuple(part.summed_ms for part in row.mode.classes)) for row in rows)
    colours = tuple(COLOURS[name] for name in CLASSES)
    chart = StackedBars(f"Kernel time of a step, {source.label}", "ms", CLASSES, colours, bars)
    note = (
        "Average step of one rank, summed over streams, so overlapping kernels count twice. Colours are those of "
        "bench trace's page."
    )
    head = ("step", "steps", "span ms", "busy ms", "gap ms", "launches", "all-reduces", "us each", "of kernel sum")
    return Figures((chart,), note), Table(head, tuple(map(_row, rows)))


def _row(row: _Step) -> tuple[str, ...]:
    mode = row.mode
    calls = mode.all_reduce_calls
    each = mode.all_reduce_ms / calls * 1000 if calls else None
    times = (mode.span_ms, mode.busy_ms, mode.gap_ms, mode.launches, calls)
    share = f"{mode.headline.share_of_kernel_sum:.1%}"
    return f"{row.name}, {row.device}", str(mode.steps), *map(number, times), optional(each), share
