"""Turns -> one value an arm, cell, metric and unit, paired. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from k25serve.bench.ab.plan import METRICS, Design
from k25serve.bench.ab.result import Metric
from k25serve.bench.ab.turn import CellRun, TurnRun
from k25serve.bench.load import metrics
from k25serve.bench.load.record import Cell, RequestRecord
from k25serve.bench.load.summary import duration

# How a metric of one request is read; the better value is the smaller one. Throughput is a whole cell's.
_OF_REQUEST = {"tpot": metrics.tpot, "ttft": metrics.ttft}


@dataclass(frozen=True, slots=True)
class Paired:
    """One metric in one cell: arm A's and arm B's value by unit, and the log gains, above 0 where B is better."""

    cell: Cell
    metric: Metric
    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def log_gains(self) -> tuple[float, ...]:
        sign = 1 if self.metric == "tokens_per_s" else -1
        return tuple(sign * math.log(b / a) for a, b in zip(self.a, self.b, strict=True))


def pair_up(turns: Sequence[TurnRun], design: Design) -> list[Paired]:
    """All comparisons over the pairs of which both turns are there. Values are positive; a unit in which an arm has
    none (no request was answered) is left out here, and makes the run invalid in fairness.py.
    """
    pairs = complete_pairs(turns)
    found = []
    for cell in design.load.cells():
        for metric in METRICS:
            units = [unit for pair in pairs for unit in _units(*pair, cell, metric, design)]
            whole = [(a, b) for a, b in units if a is not None and b is not None and a > 0 and b > 0]
            found.append(Paired(cell, metric, tuple(a for a, _ in whole), tuple(b for _, b in whole)))
    return found


def complete_pairs(turns: Sequence[TurnRun]) -> list[tuple[TurnRun, TurnRun]]:
    """(A, B) of each pair, in order."""
    found: dict[int, dict[str, TurnRun]] = {}
    for turn in turns:
        found.setdefault(turn.pair, {})[turn.arm] = turn
    return [(pair["A"], pair["B"]) for _, pair in sorted(found.items()) if len(pair) == 2]


def runs_of(turn: TurnRun, cell: Cell) -> list[CellRun]:
    """A cell's runs, by block."""
    return sorted((run for run in turn.runs if run.cell == cell), key=lambda run: run.block)


def _units(
    a: TurnRun, b: TurnRun, cell: Cell, metric: Metric, design: Design
) -> list[tuple[float | None, float | None]]:
    """One for each block, or their geometric mean where the unit is the boot."""
    blocks = [
        _values(of_a.records, of_b.records, metric)
        for of_a, of_b in zip(runs_of(a, cell), runs_of(b, cell), strict=True)
    ]
    if design.scope != "across boots":
        return blocks
    return [(_mean(one for one, _ in blocks), _mean(one for _, one in blocks))]


def _values(
    a: Sequence[RequestRecord], b: Sequence[RequestRecord], metric: Metric
) -> tuple[float | None, float | None]:
    """Over the prompts that both arms answered, so that a failure of one arm can't choose the other's prompts."""
    good_a, good_b = ({r.asked.prompt_id: r for r in part if metrics.answered(r)} for part in (a, b))
    both = sorted(good_a.keys() & good_b.keys())
    if metric == "tokens_per_s":
        return _throughput(a), _throughput(b)
    read = _OF_REQUEST[metric]
    return _mean(read(good_a[name]) for name in both), _mean(read(good_b[name]) for name in both)


def _throughput(records: Sequence[RequestRecord]) -> float | None:
    tokens = sum(r.tokens.completion for r in records if metrics.answered(r) and r.tokens is not None)
    seconds = duration(records)
    return tokens / seconds if seconds else None


def _mean(values: Iterable[float | None]) -> float | None:
    """Geometric; None where one is missing or not positive, or there is none."""
    found = list(values)
    whole = [value for value in found if value is not None and value > 0]
    if not whole or len(whole) < len(found):
        return None
    return math.exp(sum(map(math.log, whole)) / len(whole))
