"""The split kernel for an fp8 (e4m3) cache. Same rows, chunks and splits as `triton.py`; the merge is the same kernel.

By default a tile is dequantised to float16, which holds every e4m3 value exactly, once, on its way to shared memory.
The next tile waits in registers meanwhile: Triton's asynchronous copies can't convert. With FP8_DOT the products are
fp8 by fp8: no conversion, but queries and softmax weights are rounded to e4m3 (3 to 20 times the error).

The draft tokens' own keys are not quantised, so they are a tile of their own, before the loop: after it, it would
spill.
"""

import triton
import triton.language as tl

from k25serve.patches.kernels.mla_verify.triton import (
    LATENT,
    LOWEST,
    ROPE,
    attend,
    columns,
    head_and_draft,
    hide,
    scores_of,
    split_span,
    store_split,
)


@triton.jit(
    do_not_specialize=[
        "kv_indptr",
        "kv_indices",
        "n_splits",
        "granule",
        "draft_tokens",
        "reciprocal",
        "rows_total",
        "q_token",
        "q_head",
        "k_token",
        "kv_slot",
    ]
)
def mla_verify_splits_fp8(
    q,  # [batch * draft_tokens, heads, 576] bf16
    k_extend,  # [batch * draft_tokens, 576] bf16
    kv_buffer,  # [slots, 576] fp8 e4m3
    kv_indptr,  # [batch + 1] int32
    kv_indices,  # [kv_indptr[batch]] int64
    partial,  # [batch * row_blocks * n_splits, ROWS, 512]
    lse,  # [batch * row_blocks * n_splits, ROWS] float32
    scale,  # softmax scale * log2(e)
    k_scale,  # a key is its stored value times this
    v_scale,
    n_splits,
    granule,
    draft_tokens,
    reciprocal,
    rows_total,  # heads * draft_tokens
    q_token,
    q_head,
    k_token,
    kv_slot,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    CHUNKS: tl.constexpr,
    FP8_DOT: tl.constexpr,
):
    """One block: ROWS rows of one request over one split of its prefix. Grid [batch, row blocks, n_splits]."""
    request = tl.program_id(0).to(tl.int64)
    row_block = tl.program_id(1)
    split = tl.program_id(2)
    start = tl.load(kv_indptr + request)
    prefix = tl.load(kv_indptr + request + 1) - start
    per_split, active = split_span(prefix, n_splits, granule)
    if split >= active:
        return
    low = split * per_split
    high = tl.minimum(low + per_split, prefix)

    kv_slot = tl.multiple_of(kv_slot, 16)
    k_token = tl.multiple_of(k_token, 16)
    # An fp8 product takes at least 32 columns, a float16 one 16; what a chunk lacks is zeros.
    nope, rope, rope_mask = columns(CHUNKS, 32 if FP8_DOT else 16)
    row = row_block * ROWS + tl.arange(0, ROWS)
    head, draft = head_and_draft(row, draft_tokens, reciprocal)
    q_row = q + (request * draft_tokens + draft) * tl.multiple_of(q_token, 16) + head * tl.multiple_of(q_head, 16)
    q_mask = (row < rows_total)[None, :, None]
    q_row = tl.multiple_of(q_row, 16)
    q_nope = tl.load(q_row[None, :, None] + nope, mask=q_mask, other=0.0)
    q_rope_at = tl.max_contiguous(q_row[None, :, None] + rope, (2, 1, ROPE // CHUNKS))
    q_rope = tl.load(q_rope_at, mask=q_mask & rope_mask, other=0.0)

    acc = tl.zeros([CHUNKS, ROWS, LATENT // CHUNKS], tl.float32)
    top = tl.full([CHUNKS, ROWS], LOWEST, tl.float32)
    total = tl.zeros([CHUNKS, ROWS], tl.float32)
    if split == 0:
        d = tl.arange(0, 16)
        k_row = k_extend + (request * draft_tokens + tl.minimum(d, draft_tokens - 1)) * k_token
        k_nope = tl.load(k_row[None, :, None] + nope)
        k_rope = tl.load(k_row[None, :, None] + rope, mask=rope_mask, other=0.0)
        scores = scores_of(q_nope, q_rope, k_nope, k_rope)
        scores = hide(scores, d[None, :] <= draft[:, None])
        acc, top, total = attend(scores, scale, k_nope, acc, top, total, draft_tokens)
        # The accumulator holds values in the cache's units; store_split multiplies by v_scale.
        acc = acc / v_scale

    TYPE: tl.constexpr = kv_buffer.dtype.element_ty if FP8_DOT else tl.float16
    q_nope = q_nope.to(TYPE)
    q_rope = q_rope.to(TYPE)
    scale_prefix = scale * k_scale
    slots = kv_indices + start
    t = low + tl.arange(0, TOKENS)
    k_row = tl.multiple_of(kv_buffer + tl.load(slots + t, mask=t < high, other=0) * kv_slot, 16)
    next_nope = tl.load(k_row[None, :, None] + nope, mask=(t < high)[None, :, None], other=0.0)
    next_rope = tl.load(k_row[None, :, None] + rope, mask=(t < high)[None, :, None] & rope_mask, other=0.0)
    slot = tl.load(slots + t + TOKENS, mask=t + TOKENS < high, other=0)
    for tile in tl.range(low, high, TOKENS, num_stages=1):
        k_nope = next_nope.to(TYPE)
        k_rope = next_rope.to(TYPE)
        visible = (t < high)[None, :]
        t += TOKENS
        k_row = tl.multiple_of(kv_buffer + slot * kv_slot, 16)
        next_nope = tl.load(k_row[None, :, None] + nope, mask=(t < high)[None, :, None], other=0.0)
        next_rope = tl.load(k_row[None, :, None] + rope, mask=(t < high)[None, :, None] & rope_mask, other=0.0)
        slot = tl.load(slots + t + TOKENS, mask=t + TOKENS < high, other=0)
        scores = scores_of(q_nope, q_rope, k_nope, k_rope)
        if tile + TOKENS > high:
            scores = hide(scores, visible)
        acc, top, total = attend(scores, scale_prefix, k_nope, acc, top, total, draft_tokens)

    block = (request * tl.num_programs(1) + row_block) * n_splits + split
    store_split(partial, lse, block, nope, acc, top, total, v_scale)
