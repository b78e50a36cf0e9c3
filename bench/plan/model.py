"""One cell of a plan: concurrency, context and draft tokens -> speed-up with an interval, break-even and verdict.

    S = A(k) * T(C, L) / (T(C (k + 1), L) + k * draft)        break-even A* = (T(C (k + 1), L) + k * draft) / T(C, L)

A(k) is the accept length, T the step curve, draft the cost of a draft token, fitted to speculative cycles. N-gram
drafts come from the host and cost nothing here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from k25serve.bench.plan.acceptance import AcceptCurve
from k25serve.bench.plan.architecture import Architecture, load_architecture
from k25serve.bench.plan.calibration import AllReduce, Calibration, Point, load_calibration
from k25serve.bench.plan.curve import StepCurve, Terms

Method = Literal["eagle3", "ngram"]
Verdict = Literal["pays", "even", "costs"]
Z90 = 1.645  # two-sided 90 %
BORROWED_SHAPE_ERROR = 0.10  # of a curve between two own points, drawn after another machine's
NOISE = 0.04  # of a measured speed: public repeats of one cell, standard deviation at C=1


@dataclass(frozen=True, slots=True)
class Cell:
    """A prediction. Times in ms, `speedup` over no speculation; low and high bound it at 90 %."""

    method: Method
    concurrency: int
    context: int
    k: int
    accept_length: float
    plain_ms: float
    cycle_ms: float
    draft_ms: float
    terms: Terms
    plain_terms: Terms
    speedup: float
    low: float
    high: float

    @property
    def break_even(self) -> float:
        """The accept length at which the cell is as fast as no speculation."""
        return self.cycle_ms / self.plain_ms

    @property
    def verdict(self) -> Verdict:
        """pays or costs where the whole interval says so."""
        return "pays" if self.low > 1 else "costs" if self.high < 1 else "even"

    @property
    def tok_s(self) -> float:
        """Output tokens per second of all requests together."""
        return 1000 * self.concurrency * self.accept_length / self.cycle_ms


@dataclass(frozen=True, slots=True)
class Planner:
    """A machine's curve with the cost of drafts, and how far off its predictions were where they could be checked.

    verify_rows: how often a verify step reads a request's context; "tokens": once for each draft token (vLLM's
    TRITON_MLA, SGLang's stock Triton kernels), "requests": once (kernels that put the draft tokens in one tile).
    """

    machine: Calibration
    curve: StepCurve
    draft_ms: float
    error: float
    verify_rows: Literal["tokens", "requests"] = "tokens"

    @classmethod
    def build(
        cls,
        machine: Calibration,
        architecture: Architecture | None = None,
        verify_rows: Literal["tokens", "requests"] = "tokens",
        link: AllReduce | None = None,
    ) -> Self:
        """Fit a machine, with its reference where it names one. `link`: all-reduces to put in place of its own."""
        architecture = architecture or load_architecture(machine.model)
        if machine.reference is not None:
            other = cls.build(load_calibration(machine.reference), architecture)
            curve = StepCurve.fit(machine, architecture, other.curve)
            draft, error = other.draft_ms, math.hypot(other.error, BORROWED_SHAPE_ERROR)
        else:
            curve = StepCurve.fit(machine, architecture)
            measured = [point for point in machine.speculative(0) if point.accept_length is not None]
            draft = fit_draft_ms(curve, measured)
            error = _spread(curve, measured)
        if link is not None:
            curve = replace(curve, link=link.model_copy(update={"calls": machine.all_reduce.calls}))
        return cls(machine, curve, draft, error, verify_rows)

    def cell(self, concurrency: int, context: int, k: int, accept: AcceptCurve, method: Method = "eagle3") -> Cell:
        """Predict one cell; k 0 is no speculation."""
        length = accept.length(k)
        plain = self.curve.terms(concurrency, context)
        tokens = concurrency * (k + 1)
        verify = self.curve.terms(tokens, context, concurrency if self.verify_rows == "requests" else None)
        draft = k * self.draft_ms if method == "eagle3" else 0.0
        cycle = verify.total + draft
        speedup = length * plain.total / cycle
        sigma = math.hypot(self.error, accept.error, NOISE) if k else 0.0
        return Cell(
            method=method,
            concurrency=concurrency,
            context=context,
            k=k,
            accept_length=length,
            plain_ms=plain.total,
            cycle_ms=cycle,
            draft_ms=draft,
            terms=verify,
            plain_terms=plain,
            speedup=speedup,
            low=speedup * math.exp(-Z90 * sigma),
            high=speedup * math.exp(Z90 * sigma),
        )


def fit_draft_ms(curve: StepCurve, points: Sequence[Point]) -> float:
    """Cost of one draft token: what cycles last beyond their verify step, least squares of the relative error."""
    if not points:
        return 0.0
    above = below = 0.0
    for point in points:
        assert point.accept_length is not None
        cycle = point.cycle_ms(point.accept_length)
        verify = curve.step_ms(point.concurrency * (point.k + 1), point.context)
        above += point.k * (cycle - verify) / cycle**2
        below += point.k**2 / cycle**2
    return max(0.0, above / below)


def _spread(curve: StepCurve, points: Sequence[Point]) -> float:
    """Root mean square relative error of cycles, each predicted without its own draft cost."""
    if len(points) < 2:
        return BORROWED_SHAPE_ERROR
    squares = []
    for point in points:
        assert point.accept_length is not None
        draft = fit_draft_ms(curve, [other for other in points if other is not point])
        predicted = curve.step_ms(point.concurrency * (point.k + 1), point.context) + point.k * draft
        squares.append(math.log(predicted / point.cycle_ms(point.accept_length)) ** 2)
    return math.sqrt(sum(squares) / len(squares))
