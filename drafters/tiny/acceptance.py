"""Greedy speculation simulated in plain torch: how many tokens a verify step of the served pair would yield."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny.drafter import Drafter
from k25serve.drafters.tiny.train_drafter import target_states


@dataclass(frozen=True)
class Acceptance:
    """histogram[a]: verify steps that accepted `a` drafted tokens."""

    histogram: tuple[int, ...]

    @property
    def verify_steps(self) -> int:
        return sum(self.histogram)

    @property
    def accept_length(self) -> float:
        """1 + accepted / verify steps."""
        return 1 + sum(a * n for a, n in enumerate(self.histogram)) / max(1, self.verify_steps)


@torch.no_grad()
def simulate(
    drafter: Drafter, model: DeepseekV3ForCausalLM, prompt: Sequence[int], answer: Sequence[int], steps: int = 3
) -> Acceptance:
    """Draft and verify along `answer`, the target's own greedy continuation of `prompt`.

    Verification is lossless, so the text is known; only where the verify steps fall depends on the drafter. Drafts from
    every place are computed at once, then the places that serving would reach are walked.
    """
    ids = torch.tensor([[*prompt, *answer]], device=model.device)
    aux, _ = target_states(model, ids)
    logits = drafter.unroll(aux, ids, model.model.embed_tokens.weight, steps, teacher=False)
    drafts = torch.stack([drafter.hot_ids[step.argmax(-1)[0]] for step in logits], dim=1)  # [length, steps]
    sequence, histogram = ids[0].tolist(), [0] * (steps + 1)
    base = len(prompt) - 1  # the answer's first token comes from the prefill
    while base + 2 < len(sequence):
        truth = sequence[base + 2 : base + 2 + steps]
        guesses = drafts[base, : len(truth)].tolist()
        accepted = next((i for i, (a, b) in enumerate(zip(guesses, truth, strict=True)) if a != b), len(truth))
        histogram[accepted] += 1
        base += accepted + 1
    return Acceptance(tuple(histogram))


def merge(parts: Sequence[Acceptance]) -> Acceptance:
    """Sum over conversations. Raises ValueError for an empty list."""
    if not parts:
        raise ValueError("no conversation to merge")
    return Acceptance(tuple(map(sum, zip(*(p.histogram for p in parts), strict=True))))
