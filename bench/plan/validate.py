"""The model against measurements that were not used to fit it: error by cell, where it is off, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from k25serve.bench.plan.architecture import Architecture, load_architecture
from k25serve.bench.plan.calibration import Calibration, Point, load_calibration
from k25serve.bench.plan.curve import StepCurve
from k25serve.bench.plan.model import fit_draft_ms
from k25serve.server.errors import UserError

BAR = 0.10
LEAST = 2
FITTED, REPEAT = "rtx6kpro-k26-v4", "rtx6kpro-k26-v3"


@dataclass(frozen=True, slots=True)
class Checked:
    """One cell: speed-up predicted and observed. The cause splits the error into accept length and time."""

    point: Point
    predicted: float
    observed: float
    from_accept: float | None
    from_time: float | None

    @property
    def error(self) -> float:
        """Relative, signed: above 0 the model promised too much."""
        return self.predicted / self.observed - 1


@dataclass(frozen=True, slots=True)
class Check:
    """A set of cells under one rule of what was left out. `bar`: what the mean error must not pass, None for none."""

    name: str
    left_out: str
    cells: tuple[Checked, ...]
    bar: float | None

    @property
    def error(self) -> float:
        """Mean of the absolute relative errors."""
        return mean(abs(cell.error) for cell in self.cells)

    @property
    def failed(self) -> bool:
        """Whether it passes its bar."""
        return self.bar is not None and self.error > self.bar


def validate(fitted: str = FITTED, repeat: str | None = None, bar: float = BAR) -> tuple[Check, ...]:
    """All checks that the data allows. The first is the one with the bar; the others fare with less to go on.

    repeat: another run of the same machine, to predict from the first; the packaged machine has one.
    Raises UserError where the points of `fitted` do not allow the first.
    """
    machine = load_calibration(fitted)
    _check_points(fitted, machine)
    repeat = REPEAT if repeat is None and fitted == FITTED else repeat
    architecture = load_architecture(machine.model)
    checks = (
        Check(
            "columns of context 0",
            "each column's speculative speed and accept rate; the accept rate is the mean of the other columns",
            tuple(_leave_one_out(machine, architecture)),
            bar,
        ),
        Check(
            "columns of context 0, whole column",
            "each column's plain speed too, so that its speed-up rests on two predictions",
            tuple(_leave_column_out(machine, architecture)),
            None,
        ),
        Check(
            "longer contexts",
            "every speculative cell beyond context 0, speeds and accept rates",
            tuple(_contexts(machine, architecture)),
            bar,
        ),
        Check(
            "another run of the machine",
            "all of it; predicted from the first run's fit",
            tuple(_repeat(machine, load_calibration(repeat), architecture)) if repeat is not None else (),
            bar,
        ),
    )
    return tuple(check for check in checks if check.cells)


def _check_points(name: str, machine: Calibration) -> None:
    told = [point for point in machine.speculative(0) if point.accept_rate is not None]
    if len(told) < LEAST:
        raise UserError(
            f"--calibration {name}: points: {len(told)} with k, accept_rate and context 0; leaving one out takes "
            f"{LEAST}"
        )
    plain = {(point.concurrency, point.context) for point in machine.plain()}
    for point in machine.speculative():
        if (point.concurrency, point.context) not in plain:
            raise UserError(
                f"--calibration {name}: points: concurrency {point.concurrency}, context {point.context} has k "
                f"{point.k} but no speed without drafts; add it"
            )
    unlike = next((point.k for point in machine.speculative() if point.k != told[0].k), None)
    if unlike is not None:
        raise UserError(f"--calibration {name}: points: k {told[0].k} and k {unlike}; accept rates of one k compare")


def _leave_one_out(machine: Calibration, architecture: Architecture) -> Iterator[Checked]:
    curve = StepCurve.fit(machine, architecture)
    points = machine.speculative(0)
    for point in points:
        rest = [other for other in points if other is not point]
        yield _checked(point, _plain(machine, point), curve, fit_draft_ms(curve, rest), _pooled(rest))


def _leave_column_out(machine: Calibration, architecture: Architecture) -> Iterator[Checked]:
    for point in machine.speculative(0):
        rest = tuple(one for one in machine.points if one.concurrency != point.concurrency)
        without = machine.model_copy(update={"points": rest})
        curve = StepCurve.fit(without, architecture)
        others = without.speculative(0)
        draft, accept = fit_draft_ms(curve, others), _pooled(others)
        predicted = _tok_s(point, curve, draft, accept) / (
            1000 * point.concurrency / curve.step_ms(point.concurrency, 0)
        )
        yield Checked(point, predicted, point.tok_s / _plain(machine, point).tok_s, None, None)


def _contexts(machine: Calibration, architecture: Architecture) -> Iterator[Checked]:
    curve = StepCurve.fit(machine, architecture)
    base = machine.speculative(0)
    draft, accept = fit_draft_ms(curve, base), _pooled(base)
    for point in machine.speculative():
        if point.context:
            yield _checked(point, _plain(machine, point), curve, draft, accept)


def _repeat(machine: Calibration, other: Calibration, architecture: Architecture) -> Iterator[Checked]:
    curve = StepCurve.fit(machine, architecture)
    base = machine.speculative(0)
    draft, accept = fit_draft_ms(curve, base), _pooled(base)
    for point in other.speculative(0):
        plain = 1000 * point.concurrency / curve.step_ms(point.concurrency, 0)
        predicted = _tok_s(point, curve, draft, accept) / plain
        yield Checked(point, predicted, point.tok_s / _plain(other, point).tok_s, None, None)


def _checked(point: Point, plain: Point, curve: StepCurve, draft: float, accept: float) -> Checked:
    predicted = _tok_s(point, curve, draft, accept)
    own = point.accept_length
    return Checked(
        point,
        predicted / plain.tok_s,
        point.tok_s / plain.tok_s,
        None if own is None else accept / own - 1,
        None if own is None else point.cycle_ms(own) / _cycle(point, curve, draft) - 1,
    )


def _cycle(point: Point, curve: StepCurve, draft: float) -> float:
    return curve.step_ms(point.concurrency * (point.k + 1), point.context) + point.k * draft


def _tok_s(point: Point, curve: StepCurve, draft: float, accept: float) -> float:
    return 1000 * point.concurrency * accept / _cycle(point, curve, draft)


def _plain(machine: Calibration, point: Point) -> Point:
    return next(one for one in machine.plain(point.context) if one.concurrency == point.concurrency)


def _pooled(points: Sequence[Point]) -> float:
    """Accept length at the mean accept rate of `points`."""
    rates = [point.accept_rate for point in points if point.accept_rate is not None]
    return 1 + points[0].k * mean(rates)
