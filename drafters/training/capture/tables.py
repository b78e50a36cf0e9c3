"""A check's result, for people."""

from rich.console import Console
from rich.table import Table

from k25serve.drafters.training.capture.check import CheckReport


def print_check(report: CheckReport) -> None:
    """A row a layer, then the head, then the verdict."""
    console = Console(width=None if Console().is_terminal else 120)
    console.print(f"{report.samples} samples, {report.tokens:,} tokens")
    if report.not_here is not None:
        console.print(f"No plain forward of this target here: {report.not_here}. The head's check stands alone.")
    else:
        table = Table("layer", "relative error, half of tokens", "nine in ten", "cosine", "nearest layer")
        for match in report.layers:
            numbers = (f"{match.relative_error:.5f}", f"{match.far:.5f}", f"{match.cosine:.6f}")
            table.add_row(str(match.layer), *numbers, str(match.nearest))
        console.print(table)
    head = report.head
    console.print(
        f"head: {head.difference:.4f} nats from the engine's log-probabilities, the same top token at "
        f"{head.agreement:.1%} of {head.tokens:,} places"
    )
    for fault in report.faults:
        console.print(f"fault: {fault}", style="red", soft_wrap=True, highlight=False)
    console.print("check: failed" if report.faults else "check: passed")
