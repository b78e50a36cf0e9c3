"""Sweeps out of result files in one form: what was measured at each concurrency, by arm. Pure."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from k25serve.bench.ab.result import AbData, Arm, Comparison
from k25serve.bench.ab.stats.paired_t import paired_t
from k25serve.bench.load.record import MIXED, Cell
from k25serve.bench.load.result import CellSummary, LoadData, Spread
from k25serve.bench.report.bodies import GpuSpeed
from k25serve.bench.report.plots.chart import LineChart, Point, Series
from k25serve.bench.report.sources import Source, Sources

MS = 1000.0
LEVEL = 0.05
UNITS = "A/B: geometric mean over its units (boots or blocks) with the 95 % t interval."
REQUESTS = "Load run: throughput has no interval (one run); times are medians over requests, the bar goes on to p90."
STEPS = (
    "GPU stage: one run, no interval. Time per token is the engine's own steps (decode, or draft and verify) over the "
    "accept length, without prefill; acceptance there is set, not measured."
)


@dataclass(frozen=True, slots=True)
class Value:
    """low, high: None where nothing is known about its spread."""

    value: float
    low: float | None = None
    high: float | None = None

    def point(self, x: float) -> Point:
        return Point(x, self.value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Measured:
    """One arm at one concurrency. Tokens per second of all requests; times in ms."""

    concurrency: int
    tokens_per_s: Value
    tpot_ms: Value | None
    ttft_ms: Value | None


@dataclass(frozen=True, slots=True)
class Panel:
    """Arms under the same conditions: they may be drawn together. gpus: of each engine, None without one or untold."""

    title: str
    note: str
    source: Source
    context: int
    gpus: int | None
    arms: dict[str, tuple[Measured, ...]]

    def chart(self, what: str, value: Callable[[Measured], Value | None]) -> LineChart | None:
        """`value` against concurrency; None where no arm has it."""
        lines = {
            name: tuple(told.point(one.concurrency) for one in rows if (told := value(one)) is not None)
            for name, rows in self.arms.items()
        }
        series = tuple(Series(name, points) for name, points in lines.items() if points)
        return LineChart(self.title, "concurrent requests", what, series) if series else None


def panels(sources: Sources) -> list[Panel]:
    """A/Bs, load runs, GPU stages."""
    return [*_ab(sources), *_load(sources), *_speed(sources)]


def notes(found: Sequence[Panel]) -> str:
    """How the intervals of `found` are to be read."""
    return " ".join(dict.fromkeys(one.note for one in found))


def _ab(sources: Sources) -> Iterator[Panel]:
    arms: tuple[Arm, Arm] = ("A", "B")
    for source, data in sources.of(AbData):
        swept = [one for one in data.comparisons if is_swept(one.cell) and one.values_a]
        names = {facts.name: f"{facts.name}: {facts.spec}" for facts in data.arms}
        for context in sorted({one.cell.context_tokens for one in swept}):
            here = [one for one in swept if one.cell.context_tokens == context]
            lines = {names[arm]: _arm(here, arm) for arm in arms}
            title = _title(source, f"context {context}" if context else "")
            yield Panel(title, UNITS, source, context, _gpus(source, data.arms[0].server), lines)


def _arm(here: Sequence[Comparison], arm: Arm) -> tuple[Measured, ...]:
    rows = []
    for level in sorted({one.cell.level for one in here}):
        found = {one.metric: one.values_a if arm == "A" else one.values_b for one in here if one.cell.level == level}
        if "tokens_per_s" in found:
            tpot, ttft = (_mean(found[name], MS) if name in found else None for name in ("tpot", "ttft"))
            rows.append(Measured(level, _mean(found["tokens_per_s"]), tpot, ttft))
    return tuple(rows)


def _mean(values: Sequence[float], scale: float = 1.0) -> Value:
    if min(values) <= 0:
        return Value(sum(values) / len(values) * scale)
    test = paired_t([math.log(value * scale) for value in values], LEVEL)
    bounded = test.n > 1
    return Value(math.exp(test.mean), math.exp(test.low) if bounded else None, math.exp(test.high) if bounded else None)


def _load(sources: Sources) -> Iterator[Panel]:
    found = sources.of(LoadData)
    together: dict[tuple[str, str, int], list[tuple[Source, LoadData]]] = {}
    for source, data in found:
        machine = source.result.machine.model_dump_json() if source.result else ""
        for context in sorted({one.cell.context_tokens for one in data.cells if is_swept(one.cell)}):
            together.setdefault((machine, data.model, context), []).append((source, data))
    for (_, model, context), runs in together.items():
        lines = {f"{source.started[5:19]} {data.endpoint}": _run(data.cells, context) for source, data in runs}
        source, data = runs[0]
        title = _title(source, f"{model}{f', context {context}' if context else ''}")
        yield Panel(title, REQUESTS, source, context, _gpus(source, data.server), lines)


def _run(cells: Sequence[CellSummary], context: int) -> tuple[Measured, ...]:
    swept = [one for one in cells if is_swept(one.cell) and one.cell.context_tokens == context]
    return tuple(
        Measured(one.cell.level, Value(one.tokens_per_s), _median(one.tpot_s), _median(one.ttft_s))
        for one in sorted(swept, key=lambda one: one.cell.level)
    )


def _median(spread: Spread | None) -> Value | None:
    return None if spread is None else Value(spread.p50 * MS, spread.p50 * MS, spread.p90 * MS)


def _speed(sources: Sources) -> Iterator[Panel]:
    for source, data in sources.of(GpuSpeed):
        for prefix in sorted({row.prefix for rows in data.arms.values() for row in rows}):
            lines = {
                arm: tuple(
                    Measured(row.batch, Value(row.tokens_per_second), Value(row.token_ms), None)
                    for row in sorted(rows, key=lambda row: row.batch)
                    if row.prefix == prefix
                )
                for arm, rows in data.arms.items()
            }
            there = {arm: rows for arm, rows in lines.items() if rows}
            yield Panel(_title(source, f"prefix {prefix:,}"), STEPS, source, prefix, data.tp, there)


def is_swept(cell: Cell) -> bool:
    """Whether it is one of a sweep over concurrency: all prompts mixed, a fixed number of output tokens."""
    return cell.prompt_class == MIXED and cell.phase == "system"


def _title(source: Source, more: str) -> str:
    return f"{source.label}{f', {more}' if more else ''}"


def _gpus(source: Source, server: dict[str, str]) -> int | None:
    there = len(source.result.machine.gpus) if source.result else 0
    told = server.get("tp_size", "")
    return int(told) if there and told.isdigit() else there or None
