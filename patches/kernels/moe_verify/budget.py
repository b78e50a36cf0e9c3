"""Top-k routing inside a budget of experts for the whole batch. Lossy: it changes what the target computes.

After MoE-Spec (arXiv 2602.16052), for a router like DeepSeek-V3's: experts are chosen by sigmoid score plus correction
bias, and weighted by the score alone.
"""

import torch


def budgeted_topk(
    router_logits: torch.Tensor,
    correction_bias: torch.Tensor,
    valid: torch.Tensor,
    top_k: int,
    budget: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights [tokens, top_k] float32 that sum to 1, and experts [tokens, top_k] int64.

    router_logits: [tokens, experts]. correction_bias: [experts]. valid: [tokens] bool, False for padding, which has no
    say in what is kept. budget: top_k to `experts`.
    Kept are the tokens' first choices, then the experts with the largest sum of scores with bias over the valid tokens,
    `budget` in all. Every token routes inside what is kept, and to its own first choice whether or not that is.
    """
    scores = router_logits.float().sigmoid()
    choice = scores + correction_bias.float()
    first = choice.argmax(dim=-1, keepdim=True)
    own = torch.zeros_like(choice, dtype=torch.bool).scatter_(1, first, True)
    rows = valid.unsqueeze(1)
    mass = torch.where(rows, choice, 0.0).sum(dim=0)
    is_first = (own & rows).any(dim=0)
    # Beyond any sum, so that first choices come before all others, the most wanted of them first.
    ahead = 2 * mass.abs().amax() + 1
    kept = torch.zeros_like(is_first).scatter_(0, (mass + is_first * ahead).topk(budget).indices, True)
    experts = choice.masked_fill(~(kept | own), float("-inf")).topk(top_k, dim=-1).indices
    weights = scores.gather(1, experts)
    return weights / weights.sum(dim=-1, keepdim=True), experts
