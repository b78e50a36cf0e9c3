"""Greedy speculation along a known text: what serving would accept."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Walked:
    """histogram[a]: verify steps that accepted `a` drafted tokens."""

    histogram: tuple[int, ...]

    def __add__(self, other: "Walked") -> "Walked":
        return Walked(tuple(a + b for a, b in zip(self.histogram, other.histogram, strict=True)))

    @property
    def verify_steps(self) -> int:
        return sum(self.histogram)

    @property
    def accept_length(self) -> float:
        """1 + accepted / verify steps."""
        return 1 + sum(a * n for a, n in enumerate(self.histogram)) / max(1, self.verify_steps)

    @property
    def by_position(self) -> list[float]:
        """Share of the verify steps that accepted the drafted token of each position."""
        total = max(1, self.verify_steps)
        return [sum(self.histogram[place:]) / total for place in range(1, len(self.histogram))]


def walk(drafts: Sequence[Sequence[int]], written: Sequence[int]) -> Walked:
    """drafts[b]: what is drafted after written[b]; written: one answer, from its first token.

    Verification is lossless, so the text is known; only where the verify steps fall depends on the drafter. The first
    token comes from the prefill.
    """
    steps = len(drafts[0])
    histogram, base = [0] * (steps + 1), 0
    while base + 1 < len(written):
        truth = written[base + 1 : base + 1 + steps]
        pairs = zip(drafts[base], truth, strict=False)
        accepted = next((i for i, (guess, true) in enumerate(pairs) if guess != true), len(truth))
        histogram[accepted] += 1
        base += accepted + 1
    return Walked(tuple(histogram))
