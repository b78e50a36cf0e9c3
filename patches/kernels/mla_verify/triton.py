"""The Triton kernels for a bf16 cache: drafted tokens against splits of the latent prefix, then the splits' merge.

A row is one (head, draft token) pair; the rows of a block share every latent tile that the block reads, as keys (all
576 columns) and as values (the first 512). The columns are cut into CHUNKS, one a warp: a warp multiplies its own
columns of queries and keys, the partial scores are added over the warps, and the warp keeps its own columns of the
output. So a tile is read from shared memory about once instead of once a warp, and the sum over columns is no long
chain of products.

A draft token is one more token of the walk, so there is no second code path for it: its row comes from `k_extend`.

The slot of a token is loaded one iteration before its latent. A latent load that waits for an index load of the same
iteration is never double-buffered by Triton's pipeliner.
"""

import triton
import triton.language as tl

LATENT = tl.constexpr(512)
ROPE = tl.constexpr(64)
# Finite, so that a row with nothing visible in a split never computes inf - inf.
LOWEST = tl.constexpr(-1.0e20)


@triton.jit
def head_and_draft(row, draft_tokens, reciprocal):
    """Head and draft token of a row, by a product: exact for rows below 4096 where reciprocal = ceil(65536 / draft)."""
    head = (row * reciprocal) >> 16
    return head, row - head * draft_tokens


@triton.jit
def split_span(length, n_splits, granule):
    """Tokens a split takes (a multiple of `granule`) and how many splits have any. Both kernels ask here."""
    per_split = tl.maximum(tl.cdiv(tl.cdiv(length, n_splits), granule), 1) * granule
    return per_split, tl.maximum(tl.cdiv(length, per_split), 1)


@triton.jit
def columns(CHUNKS: tl.constexpr, NARROWEST: tl.constexpr):
    """Column numbers of the latent part and of the rope part, each [CHUNKS, 1, width], and which rope columns count."""
    NOPE: tl.constexpr = LATENT // CHUNKS
    PART: tl.constexpr = ROPE // CHUNKS
    WIDE: tl.constexpr = max(PART, NARROWEST)
    chunk = tl.arange(0, CHUNKS)[:, None, None]
    lane = tl.arange(0, WIDE)[None, None, :]
    return chunk * NOPE + tl.arange(0, NOPE)[None, None, :], LATENT + chunk * PART + lane, lane < PART


@triton.jit
def scores_of(q_nope, q_rope, k_nope, k_rope):
    """Queries [CHUNKS, rows, width] and keys [CHUNKS, tokens, width] -> scores, the same [rows, tokens] in every chunk.

    A reduction over warps (`tl.sum`) would pass single numbers through conflicting banks of shared memory: that took a
    third of the kernel's time on an H200. Halves of a reshaped axis are added in registers instead, after one exchange
    of 16-byte pieces. The product with zeros changes no score: it asks for that exchange's result in the layout of a
    product, whole in every warp, so that the softmax needs no other exchange.
    """
    chunks: tl.constexpr = q_nope.shape[0]
    rows: tl.constexpr = q_nope.shape[1]
    tokens: tl.constexpr = k_nope.shape[1]
    scores = tl.dot(q_rope, tl.trans(k_rope, 0, 2, 1))
    scores = tl.dot(q_nope, tl.trans(k_nope, 0, 2, 1), acc=scores)
    scores = tl.permute(scores, (1, 2, 0))
    if chunks == 8:
        low, high = tl.split(tl.reshape(scores, [rows, tokens, 2, 2, 2]))
        scores = low + high
    else:
        scores = tl.reshape(scores, [rows, tokens, 2, 2])
    low, high = tl.split(scores)
    low, high = tl.split(low + high)
    scores = tl.broadcast_to((low + high)[None, :, :], [chunks, rows, tokens])
    return tl.dot(tl.zeros([chunks, rows, 16], tl.bfloat16), tl.zeros([chunks, 16, tokens], tl.bfloat16), acc=scores)


@triton.jit
def hide(scores, visible):
    """scores [CHUNKS, rows, tokens] with -inf where visible [rows, tokens] is false."""
    return tl.where(visible[None, :, :], scores, float("-inf"))


@triton.jit
def attend(scores, scale, values, acc, top, total, positive):
    """One step of the online softmax, base 2, in every chunk alike.

    scores [CHUNKS, rows, tokens]; values [CHUNKS, tokens, width]; acc [CHUNKS, rows, width]; top and total
    [CHUNKS, rows]: a row's largest scaled score and the sum of its weights. positive: a number above 0 that the
    compiler doesn't know. What stands under the condition becomes a block of its own, in which the assembler does the
    128 products that rescale a thread's accumulators while the exponentials, eight times slower, are under way; in one
    block with the products that follow it does one after the other.
    """
    new_top = tl.maximum(top, tl.max(scores, 2) * scale)
    weights = scores
    shrink = top
    if positive > 0:
        shrink = tl.exp2(top - new_top)
        acc = acc * shrink[:, :, None]
        weights = tl.exp2(scores * scale - new_top[:, :, None])
    total = total * shrink + tl.sum(weights, 2)
    acc = tl.dot(weights.to(values.dtype), values, acc=acc)
    return acc, new_top, total


@triton.jit
def store_split(partial, lse, block, nope, acc, top, total, v_scale):
    """Normalised output and base-2 log-sum-exp of a split. A row that saw nothing gets weight 0 and a finite 0."""
    rows: tl.constexpr = acc.shape[1]
    row = block * rows + tl.arange(0, rows)
    # Every chunk holds the same sums: the maximum is any of them.
    tl.store(lse + row, tl.max(top + tl.log2(total), 0))
    share = tl.where(total > 0, v_scale / total, 0.0)
    at = partial + row * LATENT
    tl.store(at[None, :, None] + nope, (acc * share[:, :, None]).to(partial.dtype.element_ty))


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
def mla_verify_splits(
    q,  # [batch * draft_tokens, heads, 576]
    k_extend,  # [batch * draft_tokens, 576]
    kv_buffer,  # [slots, 576]
    kv_indptr,  # [batch + 1] int32
    kv_indices,  # [kv_indptr[batch]] int64
    partial,  # [batch * row_blocks * n_splits, ROWS, 512]
    lse,  # [batch * row_blocks * n_splits, ROWS] float32
    scale,  # softmax scale * log2(e)
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
    TOKENS_FIRST: tl.constexpr,
):
    """One block: ROWS rows of one request over one split of its tokens. Grid [batch, row blocks, n_splits]."""
    request = tl.program_id(0).to(tl.int64)
    row_block = tl.program_id(1)
    split = tl.program_id(2)
    start = tl.load(kv_indptr + request)
    prefix = tl.load(kv_indptr + request + 1) - start
    length = prefix + draft_tokens
    per_split, active = split_span(length, n_splits, granule)
    if split >= active:
        return
    low = split * per_split
    high = tl.minimum(low + per_split, length)

    kv_slot = tl.multiple_of(kv_slot, 16)
    k_token = tl.multiple_of(k_token, 16)
    nope, rope, _ = columns(CHUNKS, 16)
    row = row_block * ROWS + tl.arange(0, ROWS)
    head, draft = head_and_draft(row, draft_tokens, reciprocal)
    q_row = q + (request * draft_tokens + draft) * tl.multiple_of(q_token, 16) + head * tl.multiple_of(q_head, 16)
    q_mask = (row < rows_total)[None, :, None]
    q_row = tl.multiple_of(q_row, 16)
    q_nope = tl.load(q_row[None, :, None] + nope, mask=q_mask, other=0.0)
    # As below, the hint is about order only: with it rows are 32 bytes apart in shared memory, not 128, where each of
    # the loop's reads of them takes eight turns.
    q_rope_at = tl.max_contiguous(q_row[None, :, None] + rope, (2, 1, ROPE // CHUNKS))
    q_rope = tl.load(q_rope_at, mask=q_mask, other=0.0)

    acc = tl.zeros([CHUNKS, ROWS, LATENT // CHUNKS], tl.float32)
    top = tl.full([CHUNKS, ROWS], LOWEST, tl.float32)
    total = tl.zeros([CHUNKS, ROWS], tl.float32)
    drafts = k_extend + request * draft_tokens * k_token
    slots = kv_indices + start
    offset = tl.arange(0, TOKENS)
    slot = tl.load(slots + low + offset, mask=low + offset < prefix, other=0)
    for tile in tl.range(low, high, TOKENS):
        t = tile + offset
        t_next = t + TOKENS
        slot_next = tl.load(slots + t_next, mask=t_next < prefix, other=0)
        k_row = kv_buffer + slot.to(tl.int32).to(tl.int64) * kv_slot
        # Beyond the last draft token the last one is read, finite and never seen.
        k_draft = drafts + tl.minimum(t - prefix, draft_tokens - 1) * k_token
        k_row = tl.multiple_of(tl.where(t < prefix, k_row, k_draft), 16)
        nope_at = k_row[None, :, None] + nope
        rope_at = k_row[None, :, None] + rope
        if TOKENS_FIRST:
            # Not so, but all that Triton takes from it is which axis neighbouring threads walk after the columns:
            # tokens where a chunk fills a cache line (else each thread computes four times the addresses), chunks
            # where it doesn't (else a warp's 512 bytes come from 16 lines instead of 4).
            nope_at = tl.max_contiguous(nope_at, (1, 2, LATENT // CHUNKS))
            rope_at = tl.max_contiguous(rope_at, (2, 1, ROPE // CHUNKS))
        k_nope = tl.load(nope_at)
        k_rope = tl.load(rope_at)
        scores = scores_of(q_nope, q_rope, k_nope, k_rope)
        if tile + TOKENS > prefix:
            scores = hide(scores, t[None, :] <= (prefix + draft)[:, None])
        acc, top, total = attend(scores, scale, k_nope, acc, top, total, draft_tokens)
        slot = slot_next

    block = (request * tl.num_programs(1) + row_block) * n_splits + split
    store_split(partial, lse, block, nope, acc, top, total, 1.0)


@triton.jit(
    do_not_specialize=[
        "kv_indptr",
        "n_splits",
        "granule",
        "draft_tokens",
        "walked_drafts",
        "reciprocal",
        "rows",
        "row_blocks",
        "out_token",
        "out_head",
    ]
)
def mla_verify_merge(
    partial,  # as the splits wrote it
    lse,
    kv_indptr,
    out,  # [batch * draft_tokens, heads, 512]
    n_splits,
    granule,
    draft_tokens,
    walked_drafts,  # draft tokens that count as tokens of the walk
    reciprocal,
    rows,
    row_blocks,
    out_token,
    out_head,
    SPLITS: tl.constexpr,  # splits read at a time
    COLUMNS: tl.constexpr,
):
    """One block: COLUMNS columns of one row of one request. Grid [batch, heads * draft_tokens, 512 / COLUMNS]."""
    request = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    length = tl.load(kv_indptr + request + 1) - tl.load(kv_indptr + request) + walked_drafts
    _, active = split_span(length, n_splits, granule)
    first = (request * row_blocks + row // rows) * n_splits * rows + row % rows

    top = tl.full([1], LOWEST, tl.float32)
    total = tl.zeros([1], tl.float32)
    acc = tl.zeros([COLUMNS], tl.float32)
    for s in tl.range(0, active, SPLITS):
        split = s + tl.arange(0, SPLITS)
        there = split < active
        at = first + split.to(tl.int64) * rows
        weight = tl.load(lse + at, mask=there, other=float("-inf"))
        value = tl.load(partial + at[:, None] * LATENT + column[None, :], mask=there[:, None], other=0.0)
        new_top = tl.maximum(top, tl.max(weight, 0))
        shrink = tl.exp2(top - new_top)
        p = tl.exp2(weight - new_top)
        total = total * shrink + tl.sum(p, 0)
        acc = acc * shrink + tl.sum(p[:, None] * value.to(tl.float32), 0)
        top = new_top
    head, draft = head_and_draft(row, draft_tokens, reciprocal)
    at = out + (request * draft_tokens + draft) * out_token + head * out_head
    tl.store(at + column, (acc / total).to(out.dtype.element_ty))
