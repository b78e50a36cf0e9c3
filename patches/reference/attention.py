"""Attention over a paged KV cache, as a formula: gather the rows, softmax in fp32, weighted sum.

One formula serves MLA (one KV head, keys of 576 = 512 latent + 64 rope, values of 512) and MHA/GQA, and every phase:
prefill, decode, draft steps and tree verification differ only in which rows a query sees. Nothing here knows SGLang.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

QUERY_BLOCK = 256
"""Most queries of one request computed at once: bounds the scores to `heads * 256 * kv` floats on long prompts."""


@dataclass(frozen=True, eq=False)
class Block:
    """Queries that are computed together.

    `rows`: their place in the flat batch of queries; `slots` int64 [b, kv]: KV rows of each request, in position order;
    `visible` bool [b, q, kv]: what each query may see, False also for the padding of shorter requests.
    """

    rows: slice
    slots: Tensor
    visible: Tensor


def attend(q: Tensor, keys: Tensor, values: Tensor, visible: Tensor, scaling: float, logit_cap: float = 0.0) -> Tensor:
    """softmax(q k^T * scaling) v in fp32; a `logit_cap` above 0 bounds the scores by `cap * tanh(score / cap)` first.

    Shapes: `q` [b, q, heads, dim]; `keys` [b, kv, kv_heads, dim]; `values` [b, kv, kv_heads, v_dim]; `visible` bool
    [b, q, kv], at least one True a row; result fp32 [b, q, heads, v_dim]. `heads` is a multiple of `kv_heads`; query
    heads of one group are adjacent.
    """
    b, n, heads, dim = q.shape
    kv, kv_heads = keys.shape[1:3]
    group = heads // kv_heads
    grouped = (
        (q.float() * scaling).view(b, n, kv_heads, group, dim).transpose(1, 2).reshape(b, kv_heads, n * group, dim)
    )
    scores = grouped @ keys.float().permute(0, 2, 3, 1)
    if logit_cap > 0:
        scores = logit_cap * torch.tanh(scores / logit_cap)
    scores = scores.view(b, kv_heads, n, group, kv).masked_fill(~visible[:, None, :, None, :], -torch.inf)
    weights = torch.softmax(scores, dim=-1).view(b, kv_heads, n * group, kv)
    out = weights @ values.float().transpose(1, 2)
    return out.view(b, kv_heads, n, group, -1).transpose(1, 2).reshape(b, n, heads, -1)


def gather(buffer: Tensor, slots: Tensor) -> Tensor:
    """Rows `slots` [b, kv] of a KV buffer [rows, ...]; result [b, kv, ...]. Several times faster than indexing."""
    return buffer.index_select(0, slots.flatten()).view(*slots.shape, *buffer.shape[1:])


def see_causal(kv_lens: Tensor, q_len: int, width: int) -> Tensor:
    """What the last `q_len` tokens of each request see: everything up to themselves.

    Shapes: `kv_lens` [b], counting the queries; result bool [b, q_len, width], `width` at least `kv_lens.max()`.
    """
    last_seen = kv_lens[:, None] - q_len + torch.arange(q_len)
    return torch.arange(width) <= last_seen[:, :, None]


def see_tree(kv_lens: Tensor, tree: Tensor, width: int) -> Tensor:
    """What the nodes of a draft tree see: the whole prefix, and among the nodes what `tree` says.

    Shapes: `kv_lens` [b], counting the n nodes, which are the last rows; `tree` bool [b, n, n] (row: node, column:
    seen); result bool [b, n, width].
    """
    n = tree.shape[1]
    node = torch.arange(width) - (kv_lens[:, None] - n)
    seen = tree.gather(2, node.clamp(0, n - 1)[:, None, :].expand(-1, n, -1))
    return (node < 0)[:, None, :] | (seen & (node < n)[:, None, :])


def plan_blocks(
    req_to_token: Tensor, requests: Tensor, kv_lens: Tensor, q_lens: Sequence[int], tree: Tensor | None = None
) -> Iterator[Block]:
    """Split a batch into blocks: requests with equal, short queries at once, others one by one in `QUERY_BLOCK` steps.

    Shapes: `req_to_token` [requests, pool_len], slot of each token; `requests`, `kv_lens` [bs], the latter counting the
    queries; `q_lens` bs integers above 0; `tree` bool [bs, n, n] where the queries are draft trees of n nodes.
    """
    kv_lens = kv_lens.long()
    if len(set(q_lens)) == 1 and q_lens[0] <= QUERY_BLOCK:
        width = int(kv_lens.max())
        visible = see_causal(kv_lens, q_lens[0], width) if tree is None else see_tree(kv_lens, tree, width)
        slots = pad_slots(req_to_token[requests, :width].long(), kv_lens)
        yield Block(slice(0, len(q_lens) * q_lens[0]), slots, visible)
        return
    row = 0
    for request, kv_len, q_len in zip(requests.tolist(), kv_lens.tolist(), q_lens, strict=True):
        for first in range(0, q_len, QUERY_BLOCK):
            count = min(QUERY_BLOCK, q_len - first)
            seen = kv_len - q_len + first + count
            slots = req_to_token[request, :seen].long()[None]
            yield Block(slice(row + first, row + first + count), slots, see_causal(torch.tensor([seen]), count, seen))
        row += q_len


def pad_slots(slots: Tensor, kv_lens: Tensor) -> Tensor:
    """Point the padding of shorter requests at their own first slot: never visible, but always written and finite.

    Shapes: `slots` [b, width]; `kv_lens` [b].
    """
    return torch.where(torch.arange(slots.shape[1]) < kv_lens[:, None], slots, slots[:, :1])
