"""The same attention in plain torch, one row at a time: the ground truth, in any precision up to float64."""

import torch

LATENT = 512


def mla_verify_naive(
    q: torch.Tensor,
    k_extend: torch.Tensor,
    kv_buffer: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    scaling: float,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Arguments as `mla_verify`'s. Returns [batch * draft_tokens, heads, 512] in `dtype`, which it computes in.

    Each draft token attends to a slice that ends with itself: what comes after it is never read.
    """
    batch = kv_indptr.shape[0] - 1
    tokens, heads, width = q.shape
    draft_tokens = tokens // batch
    buffer = kv_buffer.reshape(-1, width)
    drafts = k_extend.reshape(batch, draft_tokens, width).to(dtype)
    queries = q.reshape(batch, draft_tokens, heads, width).to(dtype)
    out = torch.empty((batch, draft_tokens, heads, LATENT), dtype=dtype, device=q.device)
    bounds = kv_indptr.tolist()
    for request in range(batch):
        stored = buffer[kv_indices[bounds[request] : bounds[request + 1]]].to(dtype)  # [prefix, 576]
        for draft in range(draft_tokens):
            own = drafts[request, : draft + 1]  # [draft + 1, 576]
            keys = torch.cat((stored * k_scale, own))
            values = torch.cat((stored[:, :LATENT] * v_scale, own[:, :LATENT]))
            scores = queries[request, draft] @ keys.T * scaling  # [heads, prefix + draft + 1]
            out[request, draft] = torch.softmax(scores, dim=-1) @ values
    return out.reshape(tokens, heads, LATENT)
