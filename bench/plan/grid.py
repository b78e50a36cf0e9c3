"""Cells of a plan over concurrency and context, and the best of EAGLE-3, n-gram and none in each."""

from collections.abc import Sequence

from k25serve.bench.plan.acceptance import AcceptCurve
from k25serve.bench.plan.model import Cell, Planner


def predict_grid(
    planner: Planner,
    corners: Sequence[tuple[int, int]],
    eagle: AcceptCurve,
    ks: Sequence[int],
    ngram: AcceptCurve,
    ngram_k: int,
) -> tuple[list[Cell], list[Cell]]:
    """All cells, and the fastest one of each (concurrency, context); k 0 is no speculation, ngram_k 0 no n-gram."""
    cells, best = [], []
    for concurrency, context in corners:
        here = [planner.cell(concurrency, context, k, eagle) for k in ks]
        if ngram_k:
            here.append(planner.cell(concurrency, context, ngram_k, ngram, "ngram"))
        none = planner.cell(concurrency, context, 0, eagle)
        cells += here
        best.append(max([none, *here], key=lambda cell: cell.speedup))
    return cells, best
