"""Sampling under speculation on the CPU.

SGLang 0.5.23 ignores temperature there: `eagle_utils._verify_uses_greedy` is True on the CPU, because its sampling
kernels exist for GPUs only, so every token after the first is the arg max. These functions give EAGLE's and n-gram's
verify (both go through `eagle_utils.eagle_sample`) the GPU's behaviour: temperature, then top-k, then top-p on the
renormalised rest, then tree sampling. As on the GPU, verify does not apply min_p at all, and applies top-p after
renormalising for top-k, while the sampler of the first token applies both to the same distribution.
"""

import torch
from torch import Tensor


def verify_uses_greedy(
    *, is_all_greedy: bool, is_cpu: bool, is_hip: bool, is_xpu: bool, use_rejection_sampling: bool
) -> bool:
    """Whether verify may commit the arg max: only if every request of the batch is greedy.

    Takes the place of `_verify_uses_greedy` in `srt/speculative/eagle_utils.py`; same keywords.
    Raises NotImplementedError for rejection sampling, whose sampler is a Triton kernel.
    """
    if use_rejection_sampling:
        raise NotImplementedError(
            "speculative_use_rejection_sampling=True needs a GPU; drop --speculative-use-rejection-sampling on the CPU"
        )
    return is_all_greedy


def top_k_renorm_prob(probs: Tensor, top_ks: Tensor) -> Tensor:
    """Keep each row's `top_ks` most probable tokens and scale them to a sum of 1; ties go to the lower token id.

    Shapes: `probs` [rows, vocab]; `top_ks` int [rows], values above vocab keep everything; result as `probs`.
    Takes the place of `top_k_renorm_prob` in `srt/speculative/eagle_utils.py` (None on the CPU).
    """
    ordered, tokens = probs.sort(dim=-1, descending=True, stable=True)
    kept = torch.arange(probs.shape[-1]) < top_ks[:, None]
    return _renormalise(torch.where(kept, ordered, 0), tokens)


def top_p_renorm_prob(probs: Tensor, top_ps: Tensor) -> Tensor:
    """Keep each row's smallest set of most probable tokens whose sum reaches `top_ps`, scaled to a sum of 1.

    The most probable token always stays. Shapes: `probs` [rows, vocab]; `top_ps` float [rows]; result as `probs`.
    Takes the place of `top_p_renorm_prob` in `srt/speculative/eagle_utils.py` (None on the CPU).
    """
    ordered, tokens = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.double().cumsum(-1) - ordered
    # A top_p of 1 keeps everything: rounding of the sum must not cut the tail.
    kept = (before < top_ps[:, None]) | (top_ps[:, None] >= 1)
    kept[:, 0] = True
    return _renormalise(torch.where(kept, ordered, 0), tokens)


def tree_speculative_sampling_target_only(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Sample one token a node from the target and walk down the tree while a child carries it.

    At a node one coin decides: the children's target probabilities are added up in order, and the child at which the
    sum exceeds the coin is accepted. Otherwise a token is drawn from the target less the refused children: the bonus
    token. With both thresholds at 1 every token has exactly the target's probability; lower ones accept more and are
    lossy.

    Shapes (bs requests, n nodes): `candidates` int [bs, n]; `retrive_*` int64 [bs, n] (see `tree.py`);
    `uniform_samples` [bs, n] and `uniform_samples_for_final_sampling` [bs] in [0, 1); `target_probs` [bs, n, vocab];
    `draft_probs` is scratch space of upstream's kernel and is not used, nor is `deterministic`; written: `predicts`,
    `accept_index`, `accept_token_num` as in `verify.verify_tree_greedy`.
    Takes the place of the name in `srt/speculative/eagle_utils.py` (None on the CPU); called with keywords by
    `eagle_sample`.
    """
    width = accept_index.shape[1]
    rows, children, siblings = retrive_index.tolist(), retrive_next_token.tolist(), retrive_next_sibling.tolist()
    tokens, coins = candidates.tolist(), uniform_samples.tolist()
    for b in range(len(rows)):
        node, accepted = 0, [rows[b][0]]
        left = _normalised(target_probs[b, 0])
        while len(accepted) < width:
            reached, child = 0.0, children[b][node]
            while child != -1:
                probability = float(left[tokens[b][child]])
                reached += probability
                if coins[b][node] < reached / threshold_acc or probability >= threshold_single:
                    break
                left = left.index_fill(0, torch.tensor(tokens[b][child]), 0)
                child = siblings[b][child]
            if child == -1:
                break
            predicts[accepted[-1]] = tokens[b][child]
            accepted.append(rows[b][child])
            node, left = child, _normalised(target_probs[b, child])
        predicts[accepted[-1]] = _draw(left, float(uniform_samples_for_final_sampling[b]))
        for column, row in enumerate(accepted):
            accept_index[b, column] = row
        accept_token_num[b] = len(accepted) - 1


def _normalised(probs: Tensor) -> Tensor:
    """[vocab] in float64 with a sum of 1, so that children with all the mass outweigh every fp32 coin below 1."""
    return probs.double() / probs.double().sum()


def _draw(weights: Tensor, coin: float) -> int:
    """Inverse-CDF draw from unnormalised float64 `weights` [vocab]; never a token of weight 0."""
    cumulative = weights.cumsum(0)
    drawn = int(torch.searchsorted(cumulative, coin * cumulative[-1], right=True))
    return min(drawn, int(weights.nonzero()[-1]))


def _renormalise(ordered: Tensor, tokens: Tensor) -> Tensor:
    """Scale the sorted probabilities to a sum of 1 and put them back in token order."""
    scaled = ordered / ordered.sum(-1, keepdim=True)
    return torch.empty_like(scaled).scatter_(-1, tokens, scaled)
