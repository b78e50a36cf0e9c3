"""Distinct experts of a batch of tokens."""

import torch


def unique_experts(topk_ids: torch.Tensor, num_experts: int) -> torch.Tensor:
    """Number of distinct experts in topk_ids [tokens, top_k], integers below `num_experts`; int32 [].

    Negative ids, as SGLang gives padding, don't count.
    """
    ids = topk_ids.reshape(-1).long()
    seen = torch.zeros(num_experts + 1, dtype=torch.int32, device=ids.device)
    seen.scatter_(0, torch.where(ids < 0, num_experts, ids), 1)
    return seen[:num_experts].sum(dtype=torch.int32)
