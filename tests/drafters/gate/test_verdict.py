"""The verdict: the floor is the policy's word, a broken drafter is named, a shortfall against the registry is told."""

import pytest

from k25serve.drafters.check import Verdict
from k25serve.drafters.gate import GateSettings, Measured, judge
from k25serve.drafters.gate.acceptance import Counts


def measured(length: float, tokens: int = 1000) -> Measured:
    return Measured(10, 10, tokens, Counts(1000, round((length - 1) * 1000), 3000))


@pytest.mark.parametrize(("policy", "below"), [("warn", Verdict.WARN), ("refuse", Verdict.REFUSE)])
@pytest.mark.parametrize(
    ("overall", "told"),
    [
        (measured(1.2), "below the floor of 1.3"),
        (measured(1.05), "speculation is broken"),
        (Measured(10, 10, 1000, None), "reports no speculation"),
        (Measured(10, 10, 1000, Counts()), "reports no speculation"),
    ],
    ids=["below", "broken", "silent", "no step"],
)
def test_below_the_floor(overall: Measured, told: str, policy: str, below: Verdict) -> None:
    verdict, reasons = judge(overall, {}, {}, GateSettings(policy=policy))  # type: ignore[arg-type]
    assert verdict is below
    assert told in reasons[0]


def test_too_few_tokens_to_call_it_broken() -> None:
    _, reasons = judge(measured(1.0, tokens=199), {}, {}, GateSettings())
    assert "below the floor" in reasons[0]
    _, reasons = judge(measured(1.0, tokens=200), {}, {}, GateSettings())
    assert "speculation is broken" in reasons[0]


def test_enough() -> None:
    assert judge(measured(1.3), {}, {}, GateSettings()) == (Verdict.PASS, ())
    verdict, _ = judge(measured(1.9), {}, {}, GateSettings(accept_floor=2.0, policy="refuse"))
    assert verdict is Verdict.REFUSE


def test_short_of_what_is_published_warns_whatever_the_policy() -> None:
    settings = GateSettings(policy="refuse", expected={"code": 3.0, "maths": 3.0, "tools": 3.0})
    classes = {"code": measured(2.6), "maths": measured(2.5), "chat": measured(1.4)}
    verdict, reasons = judge(measured(2.2), classes, {}, settings)
    assert verdict is Verdict.WARN
    assert reasons == ("maths: accept length 2.50, published 3.00",)


def test_failed_requests_are_told() -> None:
    verdict, reasons = judge(measured(2.0), {}, {"a": "500 boom", "b": "x"}, GateSettings())
    assert (verdict, reasons) == (Verdict.WARN, ("2 prompts failed, a with 500 boom; read the engine's log",))
