"""The target's own answers, many prompts at a time."""

from collections.abc import Sequence

import torch
from transformers import DeepseekV3ForCausalLM


@torch.no_grad()
def answer_all(
    model: DeepseekV3ForCausalLM,
    prompts: Sequence[Sequence[int]],
    ends: Sequence[int],
    pad: int,
    max_new_tokens: int,
    temperature: float = 0.0,
) -> list[list[int]]:
    """Continue every prompt up to and with its end token, greedily at temperature 0.

    The prompts are padded on the left, so a batch costs what its longest member costs.
    """
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts], device=model.device)
    sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
    output = model.generate(
        ids,
        attention_mask=(ids != pad).long(),
        max_new_tokens=max_new_tokens,
        eos_token_id=list(ends),
        pad_token_id=pad,
        **sampling,
    )
    return [[int(t) for t in row if t != pad] for row in output[:, width:].tolist()]
