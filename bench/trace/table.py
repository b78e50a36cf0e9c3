"""A report in the terminal."""

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from k25serve.bench.trace.report import ModeReport, TraceReport


def show(report: TraceReport, console: Console) -> None:
    """Print headline, classes, all-reduces, ranks and warnings."""
    console.print(Group(*_parts(report)))


def headline_text(report: TraceReport) -> str:
    """The headline in one line, each share by its name."""
    one = report.headline
    return (
        f"all-reduce in {report.mode}: {one.share_of_kernel_sum:.1%} of summed kernel time, "
        f"{one.share_of_busy:.1%} of busy time (union), {one.share_of_step:.1%} of the step (union), "
        f"{one.exposed_share_of_step:.1%} of the step exposed"
    )


def _parts(report: TraceReport) -> list[RenderableType]:
    parts: list[RenderableType] = [
        Text(f"{report.title}: {len(report.ranks)} files, world size {report.world_size}, {report.device}"),
        Text(headline_text(report), style="bold"),
    ]
    shown = next(rank for rank in report.ranks if rank.rank == report.timeline.rank)
    for mode in shown.modes:
        parts += [_classes(shown.rank, mode), *([_all_reduces(mode)] if mode.all_reduce else [])]
    if len(report.ranks) > 1:
        parts += [_ranks(report), _spread(report)]
    if report.wait is not None:
        parts.append(Text(wait_text(report)))
    if shown.unclassified:
        listed = ", ".join(f"{row.name[:70]} {row.share:.2%}" for row in shown.unclassified[:10])
        parts.append(Text(f"unclassified {shown.unclassified_share:.2%}: {listed}"))
    parts += [Text(f"warning: {line}", style="yellow") for line in report.warnings]
    return parts


def wait_text(report: TraceReport) -> str:
    """What the ranks wait for each other, in one line; empty for one rank."""
    wait = report.wait
    if wait is None:
        return ""
    longest = max(wait.wait_ms_by_rank.values())
    latest = f"{wait.latest_rank} is waited for most" if wait.share_of_all_reduce else "no rank waits for another"
    skew = (
        f"starts apart by {wait.skew_us_median:.1f} us (median), {wait.skew_us_max:.1f} us (most)"
        if wait.skew_us_median is not None and wait.skew_us_max is not None
        else wait.clock
    )
    return (
        f"waiting inside all-reduce: {wait.share_of_all_reduce:.1%} of its time, up to {longest:.2f} ms a step on a "
        f"rank; {latest}; {skew}"
    )


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _classes(rank: str, mode: ModeReport) -> Table:
    period = f", {mode.period_ms:.2f} ms from step to step" if mode.period_ms is not None else ""
    table = _table(
        f"{mode.mode}, {rank}: {mode.steps} steps, {mode.span_ms:.2f} ms long (median {mode.span_ms_median:.2f}, "
        f"longest {mode.span_ms_max:.2f}){period}; kernel sum {mode.kernel_sum_ms:.2f} ms, gaps {mode.gap_ms:.2f} ms, "
        f"{mode.launches:.0f} device events from {mode.host_launches:.0f} launches, "
        f"casts {mode.cast_share:.1%}, unattributed {mode.unattributed_launches:.1f}",
        *("class", "launches", "sum ms", "share of sum", "union ms", "exposed ms", "hidden ms"),
    )
    for row in mode.classes:
        if row.launches:
            table.add_row(
                row.name,
                f"{row.launches:.0f}",
                f"{row.summed_ms:.3f}",
                f"{row.share_of_kernel_sum:.1%}",
                f"{row.union_ms:.3f}",
                f"{row.exposed_ms:.3f}",
                f"{row.hidden_ms:.3f}",
            )
    return table


def _all_reduces(mode: ModeReport) -> Table:
    table = _table(
        f"all-reduce in {mode.mode}: {mode.all_reduce_calls:.0f} calls a step, {mode.all_reduce_ms:.2f} ms",
        *("implementation", "calls a step", "us a call", "ms a step", "share of sum", "bytes a call"),
    )
    for row in mode.all_reduce:
        table.add_row(
            row.family,
            f"{row.calls:.0f}" if row.calls else "part",
            f"{row.us_per_call:.1f}" if row.us_per_call is not None else "",
            f"{row.total_ms:.3f}",
            f"{row.share_of_kernel_sum:.1%}",
            f"{row.bytes_per_call:.0f}" if row.bytes_per_call is not None else "not told",
        )
    return table


def _ranks(report: TraceReport) -> Table:
    table = _table(
        f"ranks, {report.mode}",
        *("rank", "steps", "span ms", "kernel sum ms", "all-reduce ms", "share of sum", "exposed", "wait ms"),
    )
    waits = report.wait.wait_ms_by_rank if report.wait else {}
    for rank in report.ranks:
        for mode in rank.modes:
            if mode.mode == report.mode:
                table.add_row(
                    rank.rank,
                    str(mode.steps),
                    f"{mode.span_ms:.3f}",
                    f"{mode.kernel_sum_ms:.3f}",
                    f"{mode.all_reduce_ms:.3f}",
                    f"{mode.headline.share_of_kernel_sum:.1%}",
                    f"{mode.headline.exposed_share_of_step:.1%}",
                    f"{waits[rank.rank]:.3f}" if rank.rank in waits else "",
                )
    return table


def _spread(report: TraceReport) -> Table:
    table = _table("over the ranks", "value", "min", "median", "max")
    for row in report.spread:
        values = (row.minimum, row.median, row.maximum)
        table.add_row(row.name, *(f"{value:.1%}" if "share" in row.name else f"{value:.3f}" for value in values))
    return table
