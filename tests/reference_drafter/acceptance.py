"""Greedy speculation simulated in plain torch: how many tokens a verify step of the served pair would yield."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import torch
from reference_drafter.drafter import Drafter
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.training.fit.walk import Walked, walk

AUX_LAYERS = (2, 3, 4)  # of the packaged drafter: SGLang counts the layers that the states enter


@torch.no_grad()
def target_states(model: DeepseekV3ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """The captured states [rows, length, 3H] of the target.

    transformers' hidden_states[i] is the input of layer i, which is what SGLang captures for the id i.
    """
    output = model(ids, use_cache=False, output_hidden_states=True)
    return torch.cat([output.hidden_states[i] for i in AUX_LAYERS], dim=-1)


@torch.no_grad()
def simulate(
    drafter: Drafter, model: DeepseekV3ForCausalLM, prompt: Sequence[int], answer: Sequence[int], steps: int = 3
) -> Walked:
    """Draft and verify along `answer`, the target's own greedy continuation of `prompt`.

    Drafts from every place are computed at once, then the places that serving would reach are walked.
    """
    ids = torch.tensor([[*prompt, *answer]], device=model.device)
    aux = target_states(model, ids)
    logits = drafter.unroll(aux, ids, model.model.embed_tokens.weight, steps)
    drafts = torch.stack([drafter.hot_ids[step.argmax(-1)[0]] for step in logits], dim=1)  # [length, steps]
    return walk(drafts[len(prompt) - 1 :].tolist(), answer)  # the answer's first token comes from the prefill


def merge(parts: Sequence[Walked]) -> Walked:
    """Sum over conversations. Raises ValueError for an empty list."""
    if not parts:
        raise ValueError("no conversation to merge")
    return reduce(add, parts)
