"""The plan's predictions beside what was measured, and those that nothing was measured for."""

from collections.abc import Iterator

from k25serve.bench.report.bodies import Check, GpuSpeed, Plan, PlanCell, PlanChecks, PredictedRow
from k25serve.bench.report.curves import Panel, panels
from k25serve.bench.report.document import Block, Figures, Table, Text
from k25serve.bench.report.numbers import number, ranged
from k25serve.bench.report.plots.chart import LineChart, Point, Series
from k25serve.bench.report.sources import Source, Sources, machine_name


def predictions(sources: Sources) -> tuple[Block, ...]:
    """Measured beside predicted first, then predictions alone."""
    blocks: list[Block] = []
    for source, speed in sources.of(GpuSpeed):
        blocks += _speed(source, speed.predicted)
    for source, checks in sources.of(PlanChecks):
        blocks += [_check(source, check) for check in checks.checks]
    measured = panels(sources)
    for source, plan in sources.of(Plan):
        blocks += _plan(source, plan, measured)
    return tuple(blocks)


def _speed(source: Source, rows: tuple[PredictedRow, ...]) -> Iterator[Block]:
    charts = []
    for prefix in sorted({row.prefix for row in rows}):
        here = sorted((row for row in rows if row.prefix == prefix), key=lambda row: row.batch)
        series = (
            Series("measured", tuple(Point(row.batch, row.speedup) for row in here)),
            Series("predicted", tuple(Point(row.batch, row.predicted_speedup) for row in here), predicted=True),
        )
        title = f"EAGLE-3 over plain decode, prefix {prefix:,}, {source.label}"
        charts.append(LineChart(title, "concurrent requests", "gain (1: none)", series))
    if charts:
        yield Figures(tuple(charts), "Predicted from plain decode alone; one draft cost is fitted, in one cell.")
        yield Table(
            ("prefix", "batch", "cycle ms", "predicted", "error"),
            tuple(
                (
                    f"{row.prefix}", f"{row.batch}", number(row.cycle_ms), number(row.predicted_cycle_ms),
                    f"{row.predicted_cycle_ms / row.cycle_ms - 1:+.0%}",
                )
                for row in rows
            ),
            "A verify cycle",
        )  # fmt: skip


def _check(source: Source, check: Check) -> Block:
    bar = "" if check.bar is None else f", bar {check.bar:.0%}"
    return Table(
        ("C", "context", "predicted gain", "observed", "error"),
        tuple(
            (
                str(cell.concurrency), str(cell.context), number(cell.predicted), number(cell.observed),
                f"{cell.predicted / cell.observed - 1:+.1%}",
            )
            for cell in check.cells
        ),
        f"{source.label}, {check.name}: mean error {check.mean_error:.1%}{bar}. Left out of the fit: {check.left_out}",
    )  # fmt: skip


def _plan(source: Source, plan: Plan, measured: list[Panel]) -> Iterator[Block]:
    about = plan.calibration
    found = [row for panel in measured if _same_hardware(plan, panel) for row in _beside(plan.cells, panel)]
    name = f"{source.label}, calibration {about.name} ({about.hardware}; {about.engine}; {about.precision})"
    if found:
        yield Table(("C, context, arm", "predicted plain tok/s", "measured tok/s"), tuple(found), name)
    else:
        yield Text(f"{name}: predicted only; nothing in these files was measured on that hardware.")
    yield Table(
        ("C", "context", "best", "draft tokens", "gain (90 % interval)", "tok/s", "verdict"),
        tuple(map(_best, plan.best)),
        "Predicted, not measured",
    )


def _best(cell: PlanCell) -> tuple[str, ...]:
    method = cell.method if cell.k else "none"
    gain = ranged(cell.speedup, cell.low, cell.high)
    return str(cell.concurrency), str(cell.context), method, str(cell.k), gain, number(cell.tok_s), cell.verdict


def _same_hardware(plan: Plan, panel: Panel) -> bool:
    """As many GPUs, and the numbers in their name stand in the calibration's."""
    result = panel.source.result
    if result is None or not result.machine.gpus:
        return False
    numbers = {word for word in machine_name(result.machine).split() if any(sign.isdigit() for sign in word)}
    return numbers <= set(plan.calibration.hardware.replace(",", " ").split())


def _beside(cells: tuple[PlanCell, ...], panel: Panel) -> Iterator[tuple[str, ...]]:
    plain = {(cell.concurrency, cell.context): 1000 * cell.concurrency / cell.plain_ms for cell in cells}
    for arm, rows in panel.arms.items():
        for one in rows:
            told = plain.get((one.concurrency, panel.context))
            if told is not None:
                value = one.tokens_per_s
                place = f"C={one.concurrency}, {panel.context}, {arm}"
                yield place, number(told), ranged(value.value, value.low, value.high)
