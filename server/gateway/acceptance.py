"""Speculative decoding's counts for one request, in one definition for every engine. Pure."""

from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any


@dataclass(frozen=True, slots=True)
class SpecStats:
    """`steps` verify steps proposed `proposed` draft tokens, of which the target accepted `accepted`.

    `histogram[i]` is the number of steps that accepted exactly i draft tokens.

    Raises:
        ValueError: counts that can't be true, such as more tokens accepted than proposed.
    """

    steps: int
    proposed: int
    accepted: int
    histogram: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        counts = (self.steps, self.proposed, self.accepted, *self.histogram)
        if set(map(type, counts)) != {int} or min(counts) < 0:
            raise ValueError(f"speculation counts must be integers of at least 0, not {counts}")
        if self.accepted > self.proposed:
            raise ValueError(f"{self.accepted} draft tokens accepted of {self.proposed} proposed")

    def plus(self, other: "SpecStats") -> "SpecStats":
        histogram = tuple(a + b for a, b in zip_longest(self.histogram, other.histogram, fillvalue=0))
        return SpecStats(
            self.steps + other.steps, self.proposed + other.proposed, self.accepted + other.accepted, histogram
        )

    @property
    def reached(self) -> tuple[int, ...]:
        """[i] = verify steps that accepted the draft token at position i, so all before it too."""
        return tuple(accumulate(self.histogram[:0:-1]))[::-1]

    @property
    def accept_length(self) -> float | None:
        """Tokens per verify step, the target's own one included: 1 + accepted / steps; None without a step."""
        return 1 + self.accepted / self.steps if self.steps else None


def spec_stats(details: Any) -> SpecStats | None:
    """Counts from SGLang's `sglext.spec_tokens_details`: an object, or a list of one for each choice.

    SGLang's own `spec_accept_length` is completion tokens / steps, which counts the prefill's token too, so it isn't
    used (tokenizer_manager.py, 0.5.23). None if no step was verified.

    Raises:
        ValueError: not that shape, or counts that can't be true.
    """
    parts = details if isinstance(details, list) else [details]
    total: SpecStats | None = None
    for part in parts:
        if part is None:
            continue
        if not isinstance(part, dict):
            raise ValueError(f"spec_tokens_details has {type(part).__name__} where an object belongs")
        one = SpecStats(
            part.get("spec_verify_ct", 0),
            part.get("spec_num_proposed_drafts", 0),
            part.get("spec_num_correct_drafts", 0),
            tuple(part.get("spec_correct_drafts_histogram") or ()),
        )
        total = one if total is None else total.plus(one)
    return total if total is not None and total.steps else None


def vllm_spec_stats(details: Any) -> SpecStats | None:
    """Counts from vLLM's `metrics.speculative_decoding` (--per-request-spec-decode-metrics summary).

    None without a step.

    Raises:
        ValueError: not that shape, or counts that can't be true.
    """
    if not isinstance(details, dict):
        raise ValueError(f"speculative_decoding is {type(details).__name__} where an object belongs")
    stats = SpecStats(
        details.get("num_spec_steps", 0),
        details.get("num_draft_tokens", 0),
        details.get("num_accepted_draft_tokens", 0),
        tuple(details.get("acceptance_histogram") or ()),
    )
    return stats if stats.steps else None
