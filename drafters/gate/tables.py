"""The gate's result and a comparison on a terminal."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from k25serve.drafters.gate.comparison import NOISE, Comparison
from k25serve.drafters.gate.result import GateResult
from k25serve.drafters.gate.verdict import Measured


def gate_table(result: GateResult) -> Table:
    """One row a class, one for thinking on and off, one overall; the verdict and what was asked below."""
    told = "; ".join(result.reasons) or f"at least the floor of {result.settings.accept_floor}"
    asked = f"{result.overall.prompts} prompts, {result.overall.requests} requests"
    caption = f"{result.verdict.value}: {told}\n{asked} (an answered tool call makes a second request)"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    for column in ("class", "prompts", "requests", "tokens", "verify steps", "accept length", "published"):
        table.add_column(column, justify="left" if column == "class" else "right")
    groups = {**result.classes, **{f"thinking {word}": group for word, group in result.thinking.items()}}
    for name, group in {**groups, "overall": result.overall}.items():
        table.add_row(
            name, *_cells(group), f"{result.settings.expected[name]:.2f}" if name in result.settings.expected else ""
        )
    return table


def comparison_table(comparison: Comparison) -> Table:
    """One row an arm."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=_told(comparison), caption_justify="left")
    for column in ("arm", "tokens/s", "min-max", "accept length", "speedup", "", "passes", "tokens", "failures"):
        table.add_column(column, justify="left" if column in ("arm", "") else "right")
    for one in comparison.rows:
        row, length = one.row, one.row.accept_length
        table.add_row(
            row.name,
            f"{row.tokens_per_second:.1f}",
            f"{row.slowest:.1f}-{row.fastest:.1f}",
            "" if length is None else f"{length:.2f}",
            f"{one.speedup:.2f}",
            one.verdict,
            str(len(row.passes)),
            str(row.completion_tokens),
            str(row.failures),
        )
    return table


def _told(comparison: Comparison) -> str:
    best = f"fastest: {comparison.best}" if comparison.best else "fastest: not settled"
    return (
        f"{best}\ntokens/s: median of the passes. Settled where ranges do not overlap and medians differ by more than "
        f"{NOISE:.0%}."
    )


def _cells(group: Measured) -> tuple[str, str, str, str, str]:
    length = group.accept_length
    return (
        str(group.prompts),
        str(group.requests),
        str(group.completion_tokens),
        str(group.counts.steps) if group.counts else "",
        "" if length is None else f"{length:.2f}",
    )
