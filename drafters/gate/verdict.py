"""From measured acceptance to a verdict. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from k25serve.drafters.check.report import Verdict
from k25serve.drafters.gate.acceptance import Counts

# Nothing is being accepted: chance alone gives a little, and a few tokens prove nothing.
BROKEN_AT, BROKEN_TOKENS = 1.05, 200


@dataclass(frozen=True)
class GateSettings:
    """accept_floor and policy are the profile's; `expected`, by class of prompts, is the registry's.

    tolerance: the part of an expectation by which a class may fall short before that is told. max_tokens: of an answer.
    """

    accept_floor: float = 1.3
    policy: Literal["warn", "refuse"] = "warn"
    expected: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 0.15
    max_tokens: int = 256
    concurrency: int = 4
    timeout_s: float = 600.0


@dataclass(frozen=True)
class Measured:
    """A group of prompts: how many, their requests and tokens, and speculation's counts (None: none were reported).

    A prompt with tools makes a second request after the tool's answer.
    """

    prompts: int
    requests: int
    completion_tokens: int
    counts: Counts | None

    @property
    def accept_length(self) -> float | None:
        return self.counts.accept_length if self.counts else None


def judge(
    overall: Measured, classes: Mapping[str, Measured], failures: Mapping[str, str], settings: GateSettings
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and its reasons. Below the floor it is the policy's word; short of an expectation it is a warning."""
    reasons, length = [], overall.accept_length
    below = Verdict.REFUSE if settings.policy == "refuse" else Verdict.WARN
    verdict = Verdict.PASS
    if length is None:
        verdict = below
        reasons.append(
            "the engine reports no speculation: it is off, or vLLM runs without /metrics and without "
            "--per-request-spec-decode-metrics summary"
        )
    elif length <= BROKEN_AT and overall.completion_tokens >= BROKEN_TOKENS:
        verdict = below
        reasons.append(
            f"accept length {length:.2f} after {overall.completion_tokens} tokens: speculation is broken; "
            "run k25serve drafter check on this drafter and target"
        )
    elif length < settings.accept_floor:
        verdict = below
        reasons.append(
            f"accept length {length:.2f} is below the floor of {settings.accept_floor}: drafting costs more than it "
            "gives; serve without, or with another drafter"
        )
    short = _short_of_expected(classes, settings)
    if failures:
        first, error = next(iter(failures.items()))
        short.append(f"{len(failures)} prompts failed, {first} with {error}; read the engine's log")
    if short and verdict is Verdict.PASS:
        verdict = Verdict.WARN
    return verdict, (*reasons, *short)


def _short_of_expected(classes: Mapping[str, Measured], settings: GateSettings) -> list[str]:
    told = []
    for name, expected in settings.expected.items():
        measured = classes[name].accept_length if name in classes else None
        if measured is not None and measured < expected * (1 - settings.tolerance):
            told.append(f"{name}: accept length {measured:.2f}, published {expected:.2f}")
    return told
