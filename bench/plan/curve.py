"""Step time over tokens and context, as a sum of terms that each have a cause.

    T(M, L) = fixed + expert * U(M) + calls * (alpha + beta * bytes(M)) + L * (long + row * rows)

M tokens enter the step; U is the number of experts that they touch; all-reduces cost what the links were measured to
cost; attention reads L tokens for each of its rows. `fixed`, `expert`, `long` and `row` are fitted to plain decoding
only (least squares of the relative error, none negative). A factor by M brings the fit to each measured point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from k25serve.bench.comm.fit import two_terms
from k25serve.bench.plan.architecture import Architecture
from k25serve.bench.plan.calibration import AllReduce, Calibration, Point

KIB = 1024


@dataclass(frozen=True, slots=True)
class Terms:
    """A step's time in ms by cause; `measured` is what the factor adds or takes away."""

    fixed: float
    experts: float
    all_reduce: float
    attention: float
    measured: float

    @property
    def total(self) -> float:
        """The whole step."""
        return self.fixed + self.experts + self.all_reduce + self.attention + self.measured


@dataclass(frozen=True, slots=True)
class StepCurve:
    """Fitted to a calibration. knots, factors: measured over fitted step time at context 0, by tokens.

    link: what all-reduces cost; where it is not the fitted one, only that term changes.
    """

    architecture: Architecture
    link: AllReduce
    fitted_link: AllReduce
    fixed_ms: float
    expert_ms: float
    long_ms: float
    row_ms: float
    knots: tuple[float, ...]
    factors: tuple[float, ...]

    @classmethod
    def fit(cls, machine: Calibration, architecture: Architecture, reference: "StepCurve | None" = None) -> Self:
        """Fit `machine`; where it names a reference, take that one's terms and fit the factor alone."""
        base = machine.plain(0)
        if reference is not None:
            fixed, expert = reference.fixed_ms, reference.expert_ms
            long, row = reference.long_ms, reference.row_ms
        else:
            fixed, expert = _fit_base(base, architecture, machine.all_reduce)
            long, row = _fit_context(machine)
        link = machine.all_reduce
        bare = cls(architecture, link, link, fixed, expert, long, row, (1.0,), (1.0,))
        knots = tuple(float(point.concurrency) for point in base)
        factors = tuple(point.cycle_ms(1.0) / bare.step_ms(point.concurrency, 0) for point in base)
        return cls(architecture, link, link, fixed, expert, long, row, knots, factors)

    def terms(self, tokens: float, context: float, rows: float | None = None) -> Terms:
        """Terms of a step of `tokens` tokens on requests of `context` tokens.

        rows: how often attention reads the context; None for once a token, as kernels do that treat each draft token as
        a request of its own.
        """
        rows = tokens if rows is None else rows
        experts = self.expert_ms * self.architecture.unique_experts(tokens)
        base = self.fixed_ms + experts + all_reduce_ms(self.fitted_link, self.architecture, tokens)
        factor = float(np.interp(np.log(tokens), np.log(self.knots), self.factors))
        return Terms(
            fixed=self.fixed_ms,
            experts=experts,
            all_reduce=all_reduce_ms(self.link, self.architecture, tokens),
            attention=context * (self.long_ms + self.row_ms * rows),
            measured=base * (factor - 1),
        )

    def step_ms(self, tokens: float, context: float, rows: float | None = None) -> float:
        """Time of a step."""
        return self.terms(tokens, context, rows).total


def all_reduce_ms(link: AllReduce, architecture: Architecture, tokens: float) -> float:
    """All all-reduces of a step of `tokens` tokens."""
    kib = architecture.token_bytes * tokens / KIB
    return link.calls * (link.alpha_us + link.beta_us_per_kib * kib) / 1000


def _fit_base(points: Sequence[Point], architecture: Architecture, link: AllReduce) -> tuple[float, float]:
    """fixed and expert, ms, from plain decoding at context 0."""
    tokens = np.array([float(point.concurrency) for point in points])
    time = np.array([point.cycle_ms(1.0) for point in points])
    columns = np.stack([np.ones_like(tokens), [architecture.unique_experts(one) for one in tokens]], axis=1)
    rest = time - np.array([all_reduce_ms(link, architecture, one) for one in tokens])
    fixed, expert = two_terms(columns, rest, time)
    return fixed, expert


def _fit_context(machine: Calibration) -> tuple[float, float]:
    """long and row, ms a token of context, from what longer contexts add at the same concurrency; 0 without any."""
    base = {point.concurrency: point.cycle_ms(1.0) for point in machine.plain(0)}
    longer = [point for point in machine.plain() if point.context and point.concurrency in base]
    if not longer:
        return 0.0, 0.0
    context = np.array([float(point.context) for point in longer])
    rows = np.array([float(point.concurrency) for point in longer])
    time = np.array([point.cycle_ms(1.0) for point in longer])
    added = time - np.array([base[point.concurrency] for point in longer])
    long, row = two_terms(np.stack([context, context * rows], axis=1), added, time)
    return long, row
