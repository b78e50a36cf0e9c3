"""What `bench plan` predicts for EAGLE-3 from plain decode alone, beside what was measured."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k25serve.bench.gpu.arms import ACCEPT_LENGTH, STEPS
from k25serve.bench.plan.calibration import AllReduce, Calibration, Point
from k25serve.bench.plan.model import Planner

SHORT = 128  # the shortest prefix measured stands for no context
MODEL = "kimi-k2.5"
FITTED = (1, 1024)  # batch and prefix of the one cell that the cost of a draft token is taken from


@dataclass(frozen=True)
class Predicted:
    """A cell: times from one verify step to the next, ms, and tokens a second over plain decode's."""

    batch: int
    prefix: int
    cycle_ms: float
    predicted_cycle_ms: float
    speedup: float
    predicted_speedup: float

    @property
    def error(self) -> float:
        """Of the predicted cycle, relative."""
        return self.predicted_cycle_ms / self.cycle_ms - 1


def predict(arms: dict[str, list[dict[str, Any]]], arm: str = "eagle3") -> list[Predicted]:
    """Every cell of `arm` that plain decode was measured at too; [] where either is missing.

    The verify kernel reads a prefix once for all draft tokens of a request, so `verify_rows` is requests.
    """
    plain, drafted = arms.get("none", []), arms.get(arm, [])
    fitted = _find(drafted, *FITTED)
    if not plain or fitted is None:
        return []
    bare = Planner.build(_calibration(plain), verify_rows="requests")
    rows = FITTED[0]
    verify = bare.curve.step_ms(rows * (STEPS + 1), FITTED[1], rows)
    draft = max(_cycle_ms(fitted) - verify, 0.0) / STEPS
    found = []
    for row in drafted:
        batch, prefix = row["batch"], row["prefix"]
        alone = _find(plain, batch, prefix)
        if alone is None:
            continue
        cycle = bare.curve.step_ms(batch * (STEPS + 1), prefix, batch) + STEPS * draft
        base = bare.curve.step_ms(batch, prefix)
        found.append(
            Predicted(
                batch=batch,
                prefix=prefix,
                cycle_ms=_cycle_ms(row),
                predicted_cycle_ms=cycle,
                speedup=ACCEPT_LENGTH * _step_ms(alone) / _cycle_ms(row),
                predicted_speedup=ACCEPT_LENGTH * base / cycle,
            )
        )
    return found


def _calibration(plain: Sequence[dict[str, Any]]) -> Calibration:
    points = [
        Point(
            concurrency=row["batch"],
            context=0 if row["prefix"] <= SHORT else row["prefix"],
            tok_s=1000 * row["batch"] / _step_ms(row),
        )
        for row in plain
    ]
    return Calibration(
        name="measured",
        source="the speed stage's plain decode",
        engine="SGLang",
        precision="bf16",
        hardware="this GPU",
        drafter="none",
        model=MODEL,
        ranks=1,
        all_reduce=AllReduce(alpha_us=0, beta_us_per_kib=0, calls=0, source="one GPU"),
        points=tuple(points),
    )


def _find(rows: Sequence[dict[str, Any]], batch: int, prefix: int) -> dict[str, Any] | None:
    return next((row for row in rows if (row["batch"], row["prefix"]) == (batch, prefix)), None)


def _step_ms(row: dict[str, Any]) -> float:
    return float(row["steps_by_mode"]["decode"]["mean_us"]) / 1000


def _cycle_ms(row: dict[str, Any]) -> float:
    """One verify step and the drafting around it."""
    modes = row["steps_by_mode"]
    return float(sum(modes[mode]["mean_us"] for mode in ("target_verify", "draft", "draft_extend"))) / 1000


def markdown(found: Sequence[Predicted]) -> str:
    """A row a cell, and the mean error over those that nothing was fitted to."""
    if not found:
        return "No prediction: plain decode or EAGLE-3 was not measured."
    lines = [
        "| prefix | batch | cycle ms | predicted | error | speed-up | predicted |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        lines.append(
            f"| {one.prefix} | {one.batch} | {one.cycle_ms:.2f} | {one.predicted_cycle_ms:.2f} | {one.error:+.0%} "
            f"| {one.speedup:.2f} | {one.predicted_speedup:.2f} |"
        )
    errors = [abs(one.error) for one in found if (one.batch, one.prefix) != FITTED]
    if errors:
        lines.append(f"\nMean error of the cycle where nothing was fitted: {sum(errors) / len(errors):.0%}.")
    return "\n".join(lines)


def as_data(found: Sequence[Predicted]) -> list[dict[str, Any]]:
    """Plain values."""
    return [asdict(one) | {"error": one.error} for one in found]
