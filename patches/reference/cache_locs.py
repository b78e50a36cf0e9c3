"""KV-slot bookkeeping of SGLang's speculative path, in plain torch.

Names as SGLang asks for them, less the `_cpu` suffix. A "slot" is a row of the KV pool; `req_to_token[row, position]`
holds the slot of one token. Integer tensors may be int32 or int64 in any mix: values take the destination's dtype.
Every function writes its destination in place and returns nothing.
"""

import ctypes

import torch
from torch import Tensor


def assign_req_to_token_pool(
    req_pool_indices: Tensor, req_to_token: Tensor, start: Tensor, end: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """Write newly allocated slots into the request table.

    `req_to_token[req_pool_indices[i], start[i]:end[i]]` takes the next `end[i] - start[i]` values of `out_cache_loc`.

    Shapes: `req_pool_indices`, `start`, `end` [bs]; `req_to_token` [requests, pool_len]; `out_cache_loc` [sum(end -
    start)].
    Called from `srt/mem_cache/allocation.py:assign_req_to_token_pool_func` (SGLang 0.5.23). Raises ValueError if a
    range ends beyond `pool_len`.
    """
    offset = 0
    for row, first, last in _ranges(req_pool_indices, start, end, pool_len):
        req_to_token[row, first:last] = out_cache_loc[offset : offset + last - first]
        offset += last - first


def assign_extend_cache_locs(
    req_pool_indices: Tensor, req_to_token: Tensor, start: Tensor, end: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """Read slots back: `out_cache_loc` = the rows' ranges `[start[i], end[i])`, one after another.

    Shapes as in `assign_req_to_token_pool`; `out_cache_loc` may be longer than the ranges, the rest is left alone.
    Called from `kernels/ops/speculative/cache_locs.py:assign_extend_cache_locs_func` and its two neighbours (SGLang
    0.5.23). Raises ValueError if a range ends beyond `pool_len`.
    """
    offset = 0
    for row, first, last in _ranges(req_pool_indices, start, end, pool_len):
        out_cache_loc[offset : offset + last - first] = req_to_token[row, first:last]
        offset += last - first


def assign_draft_cache_locs_contiguous(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    num_cols: int,
) -> None:
    """Slots for a whole draft: per request, the `topk * num_cols` slots that follow its `seq_lens[i]` tokens.

    Shapes: `req_pool_indices`, `seq_lens` [bs]; `req_to_token` [requests, pool_len]; `out_cache_loc` [bs * topk *
    num_cols], ordered by request, branch, step.
    Called from `kernels/ops/speculative/cache_locs.py:assign_draft_cache_locs_contiguous_func` (SGLang 0.5.23).
    Raises ValueError if a range ends beyond `pool_len`.
    """
    end = seq_lens + topk * num_cols
    assign_extend_cache_locs(req_pool_indices, req_to_token, seq_lens, end, out_cache_loc, pool_len)


def fill_bonus_tokens(accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, stride: int) -> None:
    """Pick each request's bonus token, the last one it accepted.

    `bonus_tokens[i] = accept_tokens.flatten()[stride * i + accept_lens[i] - 1]`; `accept_lens` counts the bonus token.

    Shapes: `accept_tokens` [bs * stride] or [bs, stride]; `accept_lens`, `bonus_tokens` [bs].
    Called from `kernels/ops/speculative/eagle.py:fill_bonus_tokens_func` (SGLang 0.5.23).
    """
    starts = torch.arange(accept_lens.numel()) * stride
    bonus_tokens[: accept_lens.numel()] = accept_tokens.flatten()[starts + accept_lens - 1].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc(accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor) -> None:
    """Compact the slots of accepted tokens: `out_cache_loc[i]` for every `i > -1` of `accept_index`, order kept.

    Shapes: `accept_index` any, -1 where nothing was accepted; `out_cache_loc` [tokens]; `accept_out_cache_loc` at
    least as long as the number accepted, the rest is left alone.
    Called from `kernels/ops/speculative/eagle.py:fill_accept_out_cache_loc_func` (SGLang 0.5.23).
    """
    flat = accept_index.flatten()
    accepted = flat[flat > -1].long()
    accept_out_cache_loc[: accepted.numel()] = out_cache_loc[accepted].to(accept_out_cache_loc.dtype)


def copy_all_layer_kv_cache(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Copy KV rows `src_loc[i]` to `tgt_loc[i]` in every layer's buffer; all sources are read before any write.

    Needed after a tree verify (topk > 1), where the accepted branch is scattered over the draft's slots.

    Shapes: `data_ptrs` uint64 [buffers], addresses of CPU buffers; `strides` [buffers], bytes a row; `tgt_loc`,
    `src_loc` [n].
    Called from `kernels/ops/kvcache/cache_move.py:copy_all_layer_kv_cache_func` (SGLang 0.5.23).
    """
    if tgt_loc.numel() == 0:
        return
    target, source = tgt_loc.long(), src_loc.long()
    rows = int(torch.maximum(target.max(), source.max())) + 1
    for address, row_bytes in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        memory = (ctypes.c_ubyte * (rows * row_bytes)).from_address(address)
        buffer = torch.frombuffer(memory, dtype=torch.uint8).view(rows, row_bytes)
        buffer[target] = buffer[source]


def rotate_input_ids(
    input_ids: Tensor,
    extend_start_loc: Tensor,
    extend_seq_lens: Tensor,
    topk_index: Tensor,
    select_index: Tensor | None = None,
) -> None:
    """Shift each request's tokens left by one and write its new token at the end.

    The new token `topk_index[i]` goes to the request's last place, or to `input_ids[select_index[i]]` where given.

    Shapes: `input_ids` [tokens]; `extend_start_loc`, `extend_seq_lens`, `select_index` [bs]; `topk_index` [bs] or
    [bs, 1].
    Called from `kernels/ops/speculative/multi_layer_eagle.py:rotate_input_ids` (SGLang 0.5.23; multi-layer EAGLE).
    """
    tokens = topk_index.flatten().tolist()
    for i, (start, length) in enumerate(zip(extend_start_loc.tolist(), extend_seq_lens.tolist(), strict=True)):
        if length == 0:
            continue
        input_ids[start : start + length - 1] = input_ids[start + 1 : start + length].clone()
        last = start + length - 1 if select_index is None else int(select_index[i])
        input_ids[last] = tokens[i]


def _ranges(rows: Tensor, start: Tensor, end: Tensor, pool_len: int) -> list[tuple[int, int, int]]:
    ranges = list(zip(rows.tolist(), start.tolist(), end.tolist(), strict=True))
    for row, _, last in ranges:
        if last > pool_len:
            raise ValueError(
                f"request row {row} needs {last} token positions but req_to_token holds {pool_len}; "
                "lower the request's length or raise --context-length"
            )
    return ranges
