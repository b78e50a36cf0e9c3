"""The plan's prediction from plain decode, on a machine whose step times are known."""

from typing import Any

import pytest

from k25serve.bench.gpu.prediction import predict
from k25serve.bench.plan.architecture import load_architecture

DRAFT_MS, ACCEPT_LENGTH, DRAFTS = 0.4, 3, 3


def step_ms(tokens: int, prefix: int, requests: int) -> float:
    """A machine as the plan's model has it: fixed, experts touched, prefixes read."""
    experts = load_architecture("kimi-k2.5", "--model").unique_experts(tokens)
    return 2.0 + 0.02 * experts + prefix * requests * 2e-5


def row(batch: int, prefix: int, **modes: float) -> dict[str, Any]:
    return {
        "batch": batch,
        "prefix": prefix,
        "steps_by_mode": {mode: {"steps": 10, "mean_us": ms * 1000} for mode, ms in modes.items()},
    }


def measured() -> dict[str, list[dict[str, Any]]]:
    short = {batch: step_ms(batch, 0, batch) for batch in (1, 4, 16, 64)}
    plain = [row(batch, 128, decode=ms) for batch, ms in short.items()]
    cells = [(batch, prefix) for prefix in (1024, 8192, 32768) for batch in (1, 4, 16)]
    plain += [row(batch, prefix, decode=step_ms(batch, prefix, batch)) for batch, prefix in cells]
    eagle = [
        row(
            batch,
            prefix,
            target_verify=step_ms(batch * (DRAFTS + 1), prefix, batch),
            draft=DRAFT_MS * 2,
            draft_extend=DRAFT_MS,
        )
        for batch, prefix in cells
    ]
    return {"none": plain, "eagle3": eagle}


def test_a_machine_of_the_models_form_is_predicted() -> None:
    found = predict(measured())
    assert len(found) == 9
    assert max(abs(one.error) for one in found) < 0.02
    (one,) = [one for one in found if (one.batch, one.prefix) == (16, 32768)]
    assert one.speedup == pytest.approx(ACCEPT_LENGTH * step_ms(16, 32768, 16) / one.cycle_ms)


def test_a_slower_verify_shows_as_error() -> None:
    arms = measured()
    for one in arms["eagle3"]:
        if one["prefix"] == 32768:
            one["steps_by_mode"]["target_verify"]["mean_us"] *= 2
    errors = {(one.batch, one.prefix): one.error for one in predict(arms)}
    assert errors[16, 32768] < -0.4
    assert abs(errors[16, 8192]) < 0.02


def test_nothing_is_predicted_without_plain_decode() -> None:
    assert predict({"eagle3": measured()["eagle3"]}) == []
