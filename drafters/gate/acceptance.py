"""Speculation's counts out of an answer, in one definition: accept_length = 1 + accepted / verify steps. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Counts:
    """`steps` verify steps accepted `accepted` of `proposed` draft tokens."""

    steps: int = 0
    accepted: int = 0
    proposed: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.steps + other.steps, self.accepted + other.accepted, self.proposed + other.proposed)

    @property
    def accept_length(self) -> float | None:
        """Tokens a verify step, the target's own included; None without a step."""
        return 1 + self.accepted / self.steps if self.steps else None


def add_up(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


def read_counts(answer: dict[str, Any]) -> Counts | None:
    """The counts in a whole chat answer; None where the engine reports none.

    SGLang: `sglext.spec_tokens_details` (0.5.23, an object or one for each choice), `choices[].meta_info` (0.5.17).
    vLLM: `metrics.speculative_decoding` (with --per-request-spec-decode-metrics summary).
    """
    extension = answer.get("sglext")
    details = extension.get("spec_tokens_details") if isinstance(extension, dict) else None
    parts = details if isinstance(details, list) else [details]
    if details is None:
        choices = answer.get("choices")
        parts = [choice.get("meta_info") for choice in choices if isinstance(choice, dict)] if choices else []
    found = [_sglang(part) for part in parts if isinstance(part, dict) and "spec_verify_ct" in part]
    if found:
        return add_up(found)
    metrics = answer.get("metrics")
    speculation = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    return _vllm(speculation) if isinstance(speculation, dict) else None


def _sglang(part: dict[str, Any]) -> Counts:
    return Counts(
        _count(part, "spec_verify_ct"),
        _count(part, "spec_num_correct_drafts"),
        _count(part, "spec_num_proposed_drafts"),
    )


def _vllm(part: dict[str, Any]) -> Counts:
    return Counts(
        _count(part, "num_spec_steps"), _count(part, "num_accepted_draft_tokens"), _count(part, "num_draft_tokens")
    )


def _count(part: dict[str, Any], key: str) -> int:
    value = part.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
