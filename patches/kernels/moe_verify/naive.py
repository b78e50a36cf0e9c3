"""The same in plain Python, token by token."""

import math
from collections.abc import Sequence


def unique_experts(topk_ids: Sequence[Sequence[int]]) -> int:
    """Distinct experts that are no padding."""
    return len({expert for row in topk_ids for expert in row if expert >= 0})


def budgeted_topk(
    router_logits: Sequence[Sequence[float]],
    correction_bias: Sequence[float],
    valid: Sequence[bool],
    top_k: int,
    budget: int,
) -> tuple[list[list[float]], list[list[int]]]:
    """Weights and experts of each token, best first."""
    scores = [[1 / (1 + math.exp(-logit)) for logit in row] for row in router_logits]
    choice = [[score + bias for score, bias in zip(row, correction_bias, strict=True)] for row in scores]
    experts = range(len(correction_bias))
    counted = [row for row, counts in zip(choice, valid, strict=True) if counts]
    mass = [sum(row[expert] for row in counted) for expert in experts]
    first = [max(experts, key=lambda expert: row[expert]) for row in choice]
    wanted = {expert for expert, counts in zip(first, valid, strict=True) if counts}
    kept = set(sorted(experts, key=lambda expert: (expert not in wanted, -mass[expert]))[:budget])
    chosen = [
        sorted(kept | {own}, key=lambda expert: -row[expert])[:top_k] for row, own in zip(choice, first, strict=True)
    ]
    weights = [[row[expert] for expert in picks] for row, picks in zip(scores, chosen, strict=True)]
    return [[weight / sum(row) for weight in row] for row in weights], chosen
