"""Two drafters on the same prompts."""

from typing import Any

import pytest

from k25serve.drafters.training.run.options import GateOptions
from k25serve.drafters.training.run.verdict import accept_length, judge


def rows(accepted: int, steps: int = 10, count: int = 12) -> list[dict[str, Any]]:
    """Prompts of two classes, with a little spread."""
    return [
        {
            "id": str(number),
            "label": "code" if number % 2 else "chat",
            "tokens": 20,
            "steps": steps,
            "accepted": accepted + number % 3,
        }
        for number in range(count)
    ]


def options(**values: Any) -> GateOptions:
    return GateOptions(profile="p", **values)


def test_accept_length_is_over_all_steps() -> None:
    assert accept_length([{"steps": 1, "accepted": 3}, {"steps": 3, "accepted": 1}]) == pytest.approx(2.0)
    assert accept_length([]) is None


def test_better_than_the_baseline_passes() -> None:
    found = judge(options(baseline="old"), rows(20), rows(10))
    assert found["verdict"] == "pass"
    spread = found["difference"]
    assert 0 < spread["low"] <= spread["middle"] <= spread["high"]
    assert spread["middle"] == pytest.approx(1.0)
    assert found["trained"]["all"]["accept_length"] == pytest.approx(3.1)
    assert set(found["trained"]) == {"all", "code", "chat"}


def test_worse_than_the_baseline_warns() -> None:
    found = judge(options(baseline="old"), rows(10), rows(20))
    assert found["verdict"] == "warn"
    assert "accepts less than old" in found["reasons"][0]


@pytest.mark.parametrize(("policy", "verdict"), [("warn", "warn"), ("refuse", "refuse")])
def test_below_the_floor(policy: str, verdict: str) -> None:
    found = judge(options(accept_floor=2.5, policy=policy), rows(10), None)
    assert found["verdict"] == verdict
    assert "below gate.accept_floor 2.5" in found["reasons"][0]


def test_no_speculation_is_not_an_accept_length() -> None:
    found = judge(options(policy="refuse"), rows(0, steps=0), None)
    assert found["verdict"] == "refuse"
    assert "serves without speculation" in found["reasons"][0]
