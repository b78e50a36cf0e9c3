"""The gate's result and a comparison on a terminal."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from k25serve.drafters.gate.compare import Comparison
from k25serve.drafters.gate.result import GateResult
from k25serve.drafters.gate.verdict import Measured


def gate_table(result: GateResult) -> Table:
    """One row a class, one for thinking on and off, one overall; the verdict below."""
    told = "; ".join(result.reasons) or f"at least the floor of {result.settings.accept_floor}"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=f"{result.verdict.value}: {told}", caption_justify="left")
    for column in ("prompts", "requests", "tokens", "verify steps", "accept length", "published"):
        table.add_column(column, justify="left" if column == "prompts" else "right")
    groups = {**result.classes, **{f"thinking {word}": group for word, group in result.thinking.items()}}
    for name, group in {**groups, "overall": result.overall}.items():
        table.add_row(
            name, *_cells(group), f"{result.settings.expected[name]:.2f}" if name in result.settings.expected else ""
        )
    return table


def comparison_table(comparison: Comparison) -> Table:
    """One row an arm."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=f"best: {comparison.best}", caption_justify="left")
    for column in ("arm", "tokens/s", "accept length", "speedup", "", "tokens", "failures"):
        table.add_column(column, justify="left" if column in ("arm", "") else "right")
    for one in comparison.rows:
        length = one.row.accept_length
        table.add_row(
            one.row.name,
            f"{one.row.tokens_per_second:.1f}",
            "" if length is None else f"{length:.2f}",
            f"{one.speedup:.2f}",
            one.verdict,
            str(one.row.completion_tokens),
            str(one.row.failures),
        )
    return table


def _cells(group: Measured) -> tuple[str, str, str, str]:
    length = group.accept_length
    return (
        str(group.requests),
        str(group.completion_tokens),
        str(group.counts.steps) if group.counts else "",
        "" if length is None else f"{length:.2f}",
    )
