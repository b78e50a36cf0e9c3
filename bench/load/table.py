"""A load run on a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from k25serve.bench.load.result import CellSummary, Finding, Spread

MS = 1000.0
WIDTH = 110  # characters that the table needs
COLUMNS = ("cell", "n", "failed", "tok/s", "TTFT", "answer", "TPOT", "p99", "gap", "tok/chunk", "accept", "cached")


def show_cells(title: str, cells: Sequence[CellSummary], console: Console) -> None:
    """One row a cell; what wasn't told by the engine is a dash."""
    table = Table(*COLUMNS, title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.columns[0].no_wrap = True
    table.caption = "ms, medians over requests; p99 is TPOT's; gap: between chunks; answer: first text after reasoning"
    table.caption_justify = "left"
    for one in cells:
        table.add_row(
            one.cell.label,
            str(one.requests),
            f"[red]{one.failures}[/]" if one.failures else "0",
            f"{one.tokens_per_s:.1f}",
            _median(one.ttft_s),
            _median(one.first_answer_s),
            _median(one.tpot_s),
            "-" if one.tpot_s is None else f"{one.tpot_s.p99 * MS:.1f}",
            _median(one.chunk_gap_s),
            "-" if one.tokens_per_chunk is None else f"{one.tokens_per_chunk:.2f}",
            "-" if one.accept_length is None else f"{one.accept_length:.2f}",
            "-" if one.cached_share is None else f"{one.cached_share:.0%}",
        )
    console.print(table)
    for one in cells:
        joules = "" if one.joules_per_token is None else f" {one.joules_per_token:.3g} J a token"
        price = "" if one.price is None else f" {one.price:.4g} for a million output tokens"
        if joules or price:
            console.print(f"{one.cell.label}:{joules}{price}", highlight=False)


def show_findings(findings: Sequence[Finding], console: Console) -> None:
    """Warnings, then the banner and the reasons of an invalid run."""
    for finding in findings:
        if finding.severity == "warning":
            console.print(f"warning: {finding.where}: {finding.detail}", style="yellow", markup=False, highlight=False)
    faults = [finding for finding in findings if finding.severity == "invalid"]
    if faults:
        console.rule("[bold red]INVALID: these figures must not be used", characters="!", style="red")
        for finding in faults:
            console.print(
                f"{finding.code}: {finding.where}: {finding.detail}", style="red", markup=False, highlight=False
            )


def _median(spread: Spread | None) -> str:
    return "-" if spread is None else f"{spread.p50 * MS:.1f}"
