"""What `bench plan` predicts for EAGLE-3 from plain decode alone, beside what was measured."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k25serve.bench.gpu.arms import ACCEPT_LENGTH, STEPS
from k25serve.bench.plan.architecture import load_architecture
from k25serve.bench.plan.calibration import AllReduce, Calibration
from k25serve.bench.plan.model import Planner

SHORT = 128  # the shortest prefix measured stands for no context
MODEL = "kimi-k2.5"
NO_LINK = AllReduce(alpha_us=0, beta_us_per_kib=0, calls=0, source="one GPU")
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


def predict(
    arms: dict[str, list[dict[str, Any]]],
    arm: str = "eagle3",
    *,
    ranks: int = 1,
    link: AllReduce = NO_LINK,
    model: str = MODEL,
    fitted: tuple[int, int] = FITTED,
) -> list[Predicted]:
    """Every cell of `arm` that plain decode was measured at too; [] where either is missing.

    link: what an all-reduce costs between the ranks; fitted: batch and prefix that the cost of drafts is taken from.

    The verify kernel reads a prefix once for all draft tokens of a request, so `verify_rows` is requests.
    """
    plain, drafted = arms.get("none", []), arms.get(arm, [])
    first = _find(drafted, *fitted)
    if not plain or first is None:
        return []
    bare = Planner.build(
        Calibration.model_validate(calibration(plain, ranks=ranks, link=link, model=model)),
        load_architecture(model),
        verify_rows="requests",
    )
    rows, prefix = fitted
    verify = bare.curve.step_ms(rows * (STEPS + 1), prefix, rows)
    draft = max(cycle_ms(first) - verify, 0.0) / STEPS
    found = []
    for row in drafted:
        batch, prefix = row["batch"], row["prefix"]
        alone = _find(plain, batch, prefix)
        if alone is None:
            continue
        cycle = bare.curve.step_ms(batch * (STEPS + 1), prefix, batch) + STEPS * draft
        base = bare.curve.step_ms(batch, prefix)
        length = float(row.get("accept_length", ACCEPT_LENGTH))
        found.append(
            Predicted(
                batch=batch,
                prefix=prefix,
                cycle_ms=cycle_ms(row),
                predicted_cycle_ms=cycle,
                speedup=length * step_ms(alone) / cycle_ms(row),
                predicted_speedup=length * base / cycle,
            )
        )
    return found


def calibration(
    plain: Sequence[dict[str, Any]],
    drafted: Sequence[dict[str, Any]] = (),
    *,
    ranks: int,
    link: AllReduce,
    model: str = MODEL,
) -> dict[str, Any]:
    """The measurement as `bench plan --calibration FILE` reads it: plain decode, and cycles by their accept length."""
    points = [_point(row, 1000 * row["batch"] / step_ms(row)) for row in plain]
    for row in drafted:
        length = float(row["accept_length"])
        speed = 1000 * row["batch"] * length / cycle_ms(row)
        points.append(_point(row, speed) | {"k": STEPS, "accept_rate": min(1.0, max(0.0, (length - 1) / STEPS))})
    return {
        "name": "measured",
        "source": "step times of this machine",
        "engine": "SGLang",
        "precision": "as served",
        "hardware": "this machine",
        "drafter": "EAGLE-3" if drafted else "none",
        "model": model,
        "ranks": ranks,
        "all_reduce": link.model_dump(),
        "points": points,
    }


def _point(row: dict[str, Any], tok_s: float) -> dict[str, Any]:
    return {
        "concurrency": row["batch"],
        "context": 0 if row["prefix"] <= SHORT else row["prefix"],
        "tok_s": tok_s,
    }


def _find(rows: Sequence[dict[str, Any]], batch: int, prefix: int) -> dict[str, Any] | None:
    return next((row for row in rows if (row["batch"], row["prefix"]) == (batch, prefix)), None)


def step_ms(row: dict[str, Any]) -> float:
    """A step of plain decode."""
    return float(row["steps_by_mode"]["decode"]["mean_us"]) / 1000


def cycle_ms(row: dict[str, Any]) -> float:
    """One verify step and the drafting around it."""
    modes = row["steps_by_mode"]
    return float(sum(modes[mode]["mean_us"] for mode in ("target_verify", "draft", "draft_extend"))) / 1000


def markdown(found: Sequence[Predicted], fitted: tuple[int, int] = FITTED) -> str:
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
    errors = [abs(one.error) for one in found if (one.batch, one.prefix) != fitted]
    if errors:
        lines.append(f"\nMean error of the cycle where nothing was fitted: {sum(errors) / len(errors):.0%}.")
    return "\n".join(lines)


def as_data(found: Sequence[Predicted]) -> list[dict[str, Any]]:
    """Plain values."""
    return [asdict(one) | {"error": one.error} for one in found]
