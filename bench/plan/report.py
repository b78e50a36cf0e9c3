"""A plan as plain data, for the JSON and the result file. ms, tokens per second of all requests."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from k25serve.bench.plan.acceptance import AcceptCurve
from k25serve.bench.plan.model import Cell, Planner
from k25serve.bench.plan.validate import Check


def plan_data(
    planner: Planner, accept: Iterable[AcceptCurve], cells: Iterable[Cell], best: Iterable[Cell]
) -> dict[str, Any]:
    """The data of a plan's result file."""
    return {
        "calibration": planner.machine.model_dump(mode="json"),
        "all_reduce": planner.curve.link.model_dump(mode="json"),
        "verify_rows": planner.verify_rows,
        "draft_ms": planner.draft_ms,
        "error": planner.error,
        "accept": [asdict(curve) for curve in accept],
        "cells": [cell_row(cell) for cell in cells],
        "best": [cell_row(cell) for cell in best],
    }


def cell_row(cell: Cell) -> dict[str, Any]:
    """One predicted cell."""
    return {
        "method": cell.method,
        "concurrency": cell.concurrency,
        "context": cell.context,
        "k": cell.k,
        "accept_length": cell.accept_length,
        "break_even": cell.break_even,
        "speedup": cell.speedup,
        "low": cell.low,
        "high": cell.high,
        "verdict": cell.verdict,
        "tok_s": cell.tok_s,
        "plain_ms": cell.plain_ms,
        "cycle_ms": cell.cycle_ms,
        "draft_ms": cell.draft_ms,
        "verify_terms_ms": asdict(cell.terms),
        "plain_terms_ms": asdict(cell.plain_terms),
    }


def check_row(check: Check) -> dict[str, Any]:
    """One validation."""
    return {
        "name": check.name,
        "left_out": check.left_out,
        "mean_error": check.error,
        "bar": check.bar,
        "cells": [
            {
                "concurrency": cell.point.concurrency,
                "context": cell.point.context,
                "predicted": cell.predicted,
                "observed": cell.observed,
                "error": cell.error,
                "from_accept": cell.from_accept,
                "from_time": cell.from_time,
            }
            for cell in check.cells
        ],
    }
