"""The public call: checks, split count, both launches."""

import math
from typing import TYPE_CHECKING

from k25serve.patches.kernels.mla_verify import fp8, tiles, triton
from k25serve.patches.kernels.mla_verify.workspace import LATENT, Workspace, kind_of, split_count

if TYPE_CHECKING:
    import torch

WIDTH = LATENT + 64
MOST_DRAFT_TOKENS = 8
# Rows must stay below 4096 for head_and_draft's product to be exact.
MOST_HEADS = 128


def mla_verify(
    q: "torch.Tensor",
    k_extend: "torch.Tensor",
    kv_buffer: "torch.Tensor",
    kv_indptr: "torch.Tensor",
    kv_indices: "torch.Tensor",
    out: "torch.Tensor",
    scaling: float,
    workspace: Workspace,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    n_splits: int | None = None,
) -> None:
    """Absorbed MLA attention of a chain of draft tokens (topk = 1) over each request's prefix and its own predecessors.

    q           [batch * draft_tokens, heads, 576] bf16, requests one after the other, 512 latent and 64 rope columns
    k_extend    [batch * draft_tokens, 576] or [.., 1, 576] bf16: the draft tokens' latents, never quantised
    kv_buffer   [slots, 1, 576] or [slots, 576], bf16 or fp8 e4m3; the values are its first 512 columns
    kv_indptr   [batch + 1] int32: where each request's slots begin in kv_indices; prefixes of any length, 0 too
    kv_indices  [kv_indptr[batch]] or longer, int64: slots of the prefixes
    out         [batch * draft_tokens, heads, 512] bf16, written
    scaling     softmax scale, before any scale of the cache
    k_scale     a key of the prefix is its stored value times this (fp8 only; v_scale likewise for values)
    n_splits    splits of each prefix; by default one wave of blocks

    Reads nothing from the device, allocates nothing, launches twice on the current stream: it can be captured in a
    graph. The same inputs and n_splits give the same bits. A draft token sees the prefix and the draft tokens up to
    itself; a tree mask is not looked at, so the caller answers for topk = 1.

    Raises ValueError where a shape, dtype, stride or scale is not as above, or the workspace is too small.
    """
    batch = kv_indptr.shape[0] - 1
    tokens, heads = q.shape[0], q.shape[1]
    _check(q, k_extend, kv_buffer, out, batch, workspace, (k_scale, v_scale))
    draft_tokens = tokens // batch
    rows_total = heads * draft_tokens
    rows = tiles.rows_of_block(rows_total)
    tile = workspace.tiles[rows]
    row_blocks = -(-rows_total // rows)
    if n_splits is None:
        n_splits = split_count(workspace.processors, tile, batch, row_blocks)
    needed = batch * row_blocks * n_splits * rows
    if needed > workspace.lse.shape[0]:
        raise ValueError(
            f"n_splits={n_splits} at batch {batch} needs {needed} rows of scratch, the workspace has "
            f"{workspace.lse.shape[0]}: allocate it for a larger max_batch"
        )
    reciprocal = -(-65536 // draft_tokens)
    sizes = (n_splits, tile.granule, draft_tokens, reciprocal, rows_total)
    strides = (q.stride(0), q.stride(1), k_extend.stride(0), kv_buffer.stride(0))
    inputs = (q, k_extend, kv_buffer, kv_indptr, kv_indices, workspace.partial, workspace.lse)
    grid = (batch, row_blocks, n_splits)
    scale = scaling * math.log2(math.e)
    if workspace.kind == "bf16":
        triton.mla_verify_splits[grid](
            *inputs,
            scale,
            *sizes,
            *strides,
            ROWS=rows,
            TOKENS=tile.tokens,
            CHUNKS=tile.chunks,
            TOKENS_FIRST=tile.tokens_first,
            num_warps=tile.chunks,
            num_stages=tile.stages,
        )
    else:
        fp8.mla_verify_splits_fp8[grid](
            *inputs,
            scale,
            k_scale,
            v_scale,
            *sizes,
            *strides,
            ROWS=rows,
            TOKENS=tile.tokens,
            CHUNKS=tile.chunks,
            FP8_DOT=workspace.kind == "fp8_dot",
            num_warps=tile.chunks,
            num_stages=tile.stages,
        )
    at_a_time, columns = tiles.merge_shape(n_splits)
    triton.mla_verify_merge[(batch, rows_total, LATENT // columns)](
        workspace.partial,
        workspace.lse,
        kv_indptr,
        out,
        n_splits,
        tile.granule,
        draft_tokens,
        draft_tokens if workspace.kind == "bf16" else 0,
        reciprocal,
        rows,
        row_blocks,
        out.stride(0),
        out.stride(1),
        SPLITS=at_a_time,
        COLUMNS=columns,
        num_warps=4,
        num_stages=1,
    )


def _check(
    q: "torch.Tensor",
    k_extend: "torch.Tensor",
    kv_buffer: "torch.Tensor",
    out: "torch.Tensor",
    batch: int,
    workspace: Workspace,
    scales: tuple[float, float],
) -> None:
    tokens, heads = q.shape[0], q.shape[1]
    if batch < 1 or tokens % batch or not 1 <= tokens // batch <= MOST_DRAFT_TOKENS:
        raise ValueError(
            f"q has {tokens} tokens for a batch of {batch}: every request has the same 1 to {MOST_DRAFT_TOKENS}"
        )
    if not 1 <= heads <= MOST_HEADS:
        raise ValueError(f"q has {heads} heads; 1 to {MOST_HEADS} are supported")
    for name, tensor, shape in (
        ("q", q, (tokens, heads, WIDTH)),
        ("k_extend", k_extend, (tokens, WIDTH)),
        ("kv_buffer", kv_buffer, (kv_buffer.shape[0], WIDTH)),
        ("out", out, (tokens, heads, LATENT)),
    ):
        found = tuple(tensor.shape)
        if name in ("k_extend", "kv_buffer") and len(found) == 3 and found[1] == 1:
            found = (found[0], found[2])
        if found != shape:
            raise ValueError(f"{name} is {list(tensor.shape)}, expected {list(shape)}")
        if tensor.stride(-1) != 1 or tensor.stride(0) % 16 or (name == "q" and tensor.stride(1) % 16):
            raise ValueError(
                f"{name} has strides {tensor.stride()}: rows must be dense and 16 elements apart or a multiple"
            )
        if tensor.data_ptr() % 16:
            raise ValueError(f"{name} begins at an address that is no multiple of 16")
    for name, tensor in (("q", q), ("k_extend", k_extend), ("out", out)):
        if not str(tensor.dtype).endswith("bfloat16"):
            raise ValueError(f"{name} is {tensor.dtype}, expected bfloat16")
    if kind_of(kv_buffer.dtype, workspace.kind == "fp8_dot") != workspace.kind:
        raise ValueError(f"kv_buffer is {kv_buffer.dtype}, the workspace was allocated for {workspace.kind}")
    if workspace.kind == "bf16" and scales != (1.0, 1.0):
        raise ValueError(f"k_scale and v_scale are {scales}: a bf16 cache has none, use 1.0")
