"""Two deployments side by side: where a decode step got faster or slower."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.table import Table

from k25serve.bench import provenance
from k25serve.bench.trace.errors import TraceError
from k25serve.bench.trace.report import ModeReport, TraceReport
from k25serve.bench.trace.table import headline_text
from k25serve.server.config.fault import first_fault
from k25serve.server.config.shown import one_line

KIND = "trace"


class DiffRow(BaseModel):
    """A value of an average step (median over ranks) in A and in B; ms unless the name says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    a: float
    b: float

    @property
    def change(self) -> float:
        """B - A."""
        return self.b - self.a


def compare(a: TraceReport, b: TraceReport) -> tuple[DiffRow, ...]:
    """Rows for the step, each class and each all-reduce implementation. Modes may differ (decode against verify)."""
    first, second = _values(a), _values(b)
    names = [*first, *(name for name in second if name not in first)]
    rows = (DiffRow(name=name, a=first.get(name, 0.0), b=second.get(name, 0.0)) for name in names)
    return tuple(row for row in rows if row.a or row.b)


def _values(report: TraceReport) -> dict[str, float]:
    modes = [mode for rank in report.ranks for mode in rank.modes if mode.mode == report.mode]

    def middle(pick: Callable[[ModeReport], float]) -> float:
        return median(pick(mode) for mode in modes)

    values = {
        "step span": middle(lambda mode: mode.span_ms),
        "kernel sum": middle(lambda mode: mode.kernel_sum_ms),
        "gaps": middle(lambda mode: mode.gap_ms),
        "launches (count)": middle(lambda mode: mode.launches),
        "all-reduce calls (count)": middle(lambda mode: mode.all_reduce_calls),
    }
    for index, row in enumerate(modes[0].classes):
        values[f"{row.name} sum"] = middle(_summed(index))
        values[f"{row.name} exposed"] = middle(_exposed(index))
    for family in dict.fromkeys(row.family for mode in modes for row in mode.all_reduce):
        values[f"all_reduce via {family}"] = middle(_family(family))
    return values


def _summed(index: int) -> Callable[[ModeReport], float]:
    return lambda mode: mode.classes[index].summed_ms


def _exposed(index: int) -> Callable[[ModeReport], float]:
    return lambda mode: mode.classes[index].exposed_ms


def _family(family: str) -> Callable[[ModeReport], float]:
    return lambda mode: sum(row.total_ms for row in mode.all_reduce if row.family == family)


def show(a: TraceReport, b: TraceReport, console: Console) -> None:
    """Print the comparison."""
    console.print(f"A {a.title}: {headline_text(a)}", markup=False)
    console.print(f"B {b.title}: {headline_text(b)}", markup=False)
    table = Table(title=f"A: {a.mode}, B: {b.mode}; ms in an average step, median over ranks", title_justify="left")
    table.add_column("value")
    for name in ("A", "B", "B - A", "change"):
        table.add_column(name, justify="right")
    for row in compare(a, b):
        relative = f"{row.change / row.a:+.1%}" if row.a else "new"
        table.add_row(row.name, f"{row.a:.3f}", f"{row.b:.3f}", f"{row.change:+.3f}", relative)
    console.print(table)


def load(path: Path) -> TraceReport | None:
    """A report from a result file of this kind; None where `path` is something else (a folder of traces, a trace)."""
    if path.is_dir() or path.suffix != ".json" or not path.is_file():
        return None
    with path.open("rb") as file:
        if not file.read(64).lstrip().startswith(b'{\n  "schema"'):
            return None
    try:
        result = provenance.read(path)
        if result.kind != KIND:
            raise TraceError(f"{path}: a result of kind {result.kind!r}, not {KIND!r}")
        return TraceReport.model_validate(result.data)
    except ValidationError as error:
        raise TraceError(
            one_line(f"{path}: not a result of `bench trace`: {first_fault(error, TraceReport)}")
        ) from None
