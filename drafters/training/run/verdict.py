"""Two drafters on the same prompts: accept lengths, overall and by class, and whether one is the better."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from k25serve.drafters.training.run.options import GateOptions

RESAMPLES = 2000
SEED = 0
TAIL = 0.025

Arm = Sequence[Mapping[str, Any]]


def accept_length(rows: Arm) -> float | None:
    """1 + accepted / verify steps, over all prompts; None without a step."""
    steps = sum(row["steps"] for row in rows)
    return 1 + sum(row["accepted"] for row in rows) / steps if steps else None


def judge(options: GateOptions, trained: Arm, baseline: Arm | None) -> dict[str, Any]:
    """Plain values: accept_length of each, the difference with its 95 % interval, verdict pass|warn|refuse, reasons.

    The interval is a bootstrap's over prompts, the same ones of both arms.
    """
    own = accept_length(trained)
    found: dict[str, Any] = {"prompts": len(trained), "trained": by_label(trained), "reasons": []}
    failed = own is None or own < options.accept_floor
    if own is None:
        found["reasons"].append("the engine tells of no verify step: it serves without speculation")
    elif failed:
        found["reasons"].append(f"accept length {own:.3f} is below gate.accept_floor {options.accept_floor:g}")
    if baseline is not None:
        found["baseline"] = by_label(baseline)
        low, middle, high = interval(trained, baseline)
        found["difference"] = {"low": low, "middle": middle, "high": high}
        if high < 0:
            found["reasons"].append(f"accepts less than {options.baseline}: {middle:.3f} ({low:.3f} to {high:.3f})")
    found["verdict"] = ("refuse" if options.policy == "refuse" else "warn") if failed else "pass"
    if found["reasons"] and found["verdict"] == "pass":
        found["verdict"] = "warn"
    return found


def interval(trained: Arm, baseline: Arm) -> tuple[float, float, float]:
    """Low, middle and high of the difference of accept lengths."""
    pairs = list(zip(trained, baseline, strict=True))
    draw = random.Random(SEED)
    differences = sorted(_difference(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    cut = int(TAIL * RESAMPLES)
    return differences[cut], _difference(pairs), differences[-cut - 1]


def _difference(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    own, other = accept_length([a for a, _ in pairs]), accept_length([b for _, b in pairs])
    return (own or 1.0) - (other or 1.0)


def by_label(rows: Arm) -> dict[str, Any]:
    """{accept_length, prompts, tokens, steps} of `all`, and of each label."""
    labels = sorted({str(row["label"]) for row in rows})
    groups = {"all": list(rows)} | {label: [row for row in rows if row["label"] == label] for label in labels}
    return {
        label: {
            "accept_length": accept_length(group),
            "prompts": len(group),
            "tokens": sum(row["tokens"] for row in group),
            "steps": sum(row["steps"] for row in group),
        }
        for label, group in groups.items()
    }
