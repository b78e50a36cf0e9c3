"""A plan in the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from k25serve.bench.plan.layout import LayoutCell
from k25serve.bench.plan.model import Cell, Planner
from k25serve.bench.plan.ngram import NgramFinding
from k25serve.bench.plan.roofline import Gap, Hardware, Roofline
from k25serve.bench.plan.validate import Check

COLOURS = {"pays": "green", "even": "yellow", "costs": "red"}


def show_plan(planner: Planner, cells: Sequence[Cell], best: Sequence[Cell], console: Console) -> None:
    """Every cell, then the best depth by concurrency and context."""
    machine = planner.machine
    shape = f" Shape of the curve, context and draft cost: {machine.reference}." if machine.reference else ""
    console.print(
        f"{machine.name}: {machine.engine}; {machine.precision}.{shape} Draft token {planner.draft_ms:.2f} ms; "
        f"predictions of cycles were {planner.error:.1%} off (rms) where they could be checked; intervals hold 90 %.",
        markup=False,
    )
    table = _table("C", "context", "method", "k", "speed-up", "90 %", "verdict", "accept", "even at", "tok/s", "ms")
    for cell in cells:
        table.add_row(
            str(cell.concurrency),
            str(cell.context),
            cell.method,
            str(cell.k),
            f"{cell.speedup:.2f}",
            f"{cell.low:.2f}-{cell.high:.2f}",
            f"[{COLOURS[cell.verdict]}]{cell.verdict}[/]",
            f"{cell.accept_length:.2f}",
            f"{cell.break_even:.2f}",
            f"{cell.tok_s:.0f}",
            f"{cell.cycle_ms:.1f}",
        )
    console.print(table)
    summary = _table("C", "context", "best", "k", "speed-up", "verdict", "tok/s")
    for cell in best:
        summary.add_row(
            str(cell.concurrency),
            str(cell.context),
            cell.method if cell.k else "none",
            str(cell.k),
            f"{cell.speedup:.2f}",
            cell.verdict,
            f"{cell.tok_s:.0f}",
        )
    console.print(summary)


def show_cell(cell: Cell, console: Console) -> None:
    """Each term of one cell: plain step, verify step, draft."""
    console.print(
        f"{cell.method}, C={cell.concurrency}, context {cell.context}, k={cell.k}: speed-up {cell.speedup:.2f} "
        f"({cell.low:.2f}-{cell.high:.2f}, {cell.verdict}) = accept length {cell.accept_length:.2f} x plain step "
        f"{cell.plain_ms:.2f} ms / cycle {cell.cycle_ms:.2f} ms; breaks even at accept length {cell.break_even:.2f}",
        markup=False,
    )
    table = _table("ms", "fixed", "experts", "all-reduce", "attention", "measured - fit", "draft", "total")
    for name, terms, draft in (("plain step", cell.plain_terms, 0.0), ("cycle", cell.terms, cell.draft_ms)):
        values = (terms.fixed, terms.experts, terms.all_reduce, terms.attention, terms.measured, draft)
        table.add_row(name, *(f"{value:.2f}" for value in values), f"{terms.total + draft:.2f}")
    console.print(table)


def show_checks(checks: Sequence[Check], console: Console) -> None:
    """Predicted against observed, and why it is off where the data tells."""
    for check in checks:
        bar = f", bar {check.bar:.0%}: {'FAILED' if check.failed else 'held'}" if check.bar is not None else ""
        console.print(f"{check.name}: mean error {check.error:.1%}{bar}. Left out: {check.left_out}", markup=False)
        table = _table("C", "context", "predicted", "observed", "error", "why")
        for cell in check.cells:
            table.add_row(
                str(cell.point.concurrency),
                str(cell.point.context),
                f"{cell.predicted:.2f}",
                f"{cell.observed:.2f}",
                f"{cell.error:+.1%}",
                _why(cell.from_accept, cell.from_time),
            )
        console.print(table)


def _why(accept: float | None, time: float | None) -> str:
    if accept is None or time is None:
        return "accept rate not published, or two predictions"
    return f"accept length {accept:+.1%}, step time {time:+.1%}"


def show_ngram(finding: NgramFinding, console: Console) -> None:
    """What the n-gram result means."""
    least, most = finding.accepted_share
    console.print(
        f"n-gram, k={finding.k}, C={finding.concurrency}: a verify step costs {finding.cost_ratio:.2f} plain steps. "
        f"The slow-down means {finding.least:.2f} to {finding.most:.2f} tokens a step ({finding.low:.2f} to "
        f"{finding.high:.2f} with the curve's error): {least:.0%} to {most:.0%} of {finding.k} drafts were accepted. "
        f"It breaks even at {finding.cost_ratio:.2f} tokens a step.",
        markup=False,
    )


def show_layouts(cells: Sequence[LayoutCell], ranks: int, console: Console) -> None:
    """All ranks in one tensor-parallel group, against a pipeline of two groups of half as many."""
    halves = f"TP={ranks // 2} x PP=2"
    table = _table("C", f"TP={ranks} ms", f"{halves} ms", "speed-up")
    for cell in cells:
        table.add_row(str(cell.concurrency), f"{cell.tensor_ms:.1f}", f"{cell.pipeline_ms:.1f}", f"{cell.speedup:.2f}")
    console.print(table)
    console.print(f"A projection: no measurement of {halves} with this model is public.", markup=False)


def show_roofline(
    line: Roofline, hardware: Hardware, step_ms: float | None, gaps: Sequence[Gap], console: Console
) -> None:
    """Bytes by part, the efficiency, and the gaps, largest first."""
    table = _table("part", "GB a step and GPU", "ms")
    for name, size in line.bytes_by_part.items():
        if size:
            table.add_row(name, f"{size / 1e9:.3f}", f"{size / hardware.hbm_tb_s / 1e9:.3f}")
    console.print(table)
    console.print(
        f"{line.tokens} tokens: {line.bytes / 1e9:.2f} GB take {line.memory_ms:.2f} ms at {hardware.hbm_tb_s} TB/s, "
        f"{line.flop / 1e12:.3f} TFLOP take {line.compute_ms:.2f} ms",
        markup=False,
    )
    if step_ms is not None:
        console.print(f"efficiency {line.ideal_ms / step_ms:.1%} of a step of {step_ms:.2f} ms", markup=False)
    for index, gap in enumerate(gaps):
        console.print(f"{'largest gap: ' if index == 0 else ''}{gap.name}: {gap.ms:.2f} ms", markup=False)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 and name in ("part", "ms") else "right")
    return table
