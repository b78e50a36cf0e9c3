"""Throughput, time per token, time to first token, and the frontier of the two that matter to users and to owners."""

from collections.abc import Callable

from k25serve.bench.report.curves import Measured, Panel, Value, notes, panels
from k25serve.bench.report.document import Block, Figures
from k25serve.bench.report.plots.chart import LineChart, Point, Series
from k25serve.bench.report.sources import Sources


def throughput(sources: Sources) -> tuple[Block, ...]:
    """Tokens per second of all requests."""
    return _charts(sources, "tokens/s", lambda one: one.tokens_per_s)


def tpot(sources: Sources) -> tuple[Block, ...]:
    """Time per output token of one request."""
    return _charts(sources, "TPOT, ms", lambda one: one.tpot_ms)


def ttft(sources: Sources) -> tuple[Block, ...]:
    """To the first non-empty delta of any kind."""
    return _charts(sources, "TTFT, ms", lambda one: one.ttft_ms)


def frontier(sources: Sources) -> tuple[Block, ...]:
    """Each concurrency is a point: right is faster for a user, up is cheaper for the owner."""
    drawn = [(panel, chart) for panel in panels(sources) if (chart := _frontier(panel)) is not None]
    if not drawn:
        return ()
    note = "tokens/s/user is 1 / TPOT; points are concurrencies. Without a GPU the other axis is the whole engine's."
    return (Figures(tuple(chart for _, chart in drawn), note),)


def _charts(sources: Sources, what: str, value: Callable[[Measured], Value | None]) -> tuple[Block, ...]:
    drawn = [(panel, chart) for panel in panels(sources) if (chart := panel.chart(what, value)) is not None]
    if not drawn:
        return ()
    return (Figures(tuple(chart for _, chart in drawn), notes([panel for panel, _ in drawn])),)


def _frontier(panel: Panel) -> LineChart | None:
    gpus = panel.gpus or 1
    lines = {
        name: tuple(
            Point(1000 / one.tpot_ms.value, one.tokens_per_s.value / gpus, label=f"C={one.concurrency}")
            for one in rows
            if one.tpot_ms is not None and one.tpot_ms.value > 0
        )
        for name, rows in panel.arms.items()
    }
    series = tuple(Series(name, points) for name, points in lines.items() if points)
    y = "tokens/s/GPU" if panel.gpus else "tokens/s, whole engine"
    return LineChart(panel.title, "tokens/s/user", y, series, x_axis="zero") if series else None
