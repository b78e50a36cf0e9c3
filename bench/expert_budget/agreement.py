"""How far greedy answers agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from k25serve.bench.expert_budget.ask import Answer


@dataclass(frozen=True, slots=True)
class Agreement:
    """Answers against those of the engine without a budget.

    first: where each pair parts, in tokens; None where it doesn't. agreed: share of all tokens that come before.
    per_token: chance that a token parts where all before it agreed: partings over tokens up to and with them.
    """

    first: tuple[int | None, ...]
    identical: float
    agreed: float
    per_token: float
    accept_length: float


def compare(answers: Sequence[Answer], reference: Sequence[Answer]) -> Agreement:
    """Pairs in order. After the first difference nothing more can be compared: the contexts differ from there on."""
    first = tuple(_parting(mine.tokens, theirs.tokens) for mine, theirs in zip(answers, reference, strict=True))
    lengths = [len(answer.tokens) for answer in reference]
    before = [length if at is None else at for at, length in zip(first, lengths, strict=True)]
    parted = sum(at is not None for at in first)
    steps = sum(answer.steps for answer in answers)
    return Agreement(
        first=first,
        identical=first.count(None) / len(first),
        agreed=sum(before) / sum(lengths),
        per_token=parted / (sum(before) + parted),
        accept_length=1 + sum(answer.accepted for answer in answers) / steps if steps else 1.0,
    )


def _parting(mine: tuple[int, ...], theirs: tuple[int, ...]) -> int | None:
    for position, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if one != other:
            return position
    return None if len(mine) == len(theirs) else min(len(mine), len(theirs))
