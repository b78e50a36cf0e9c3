"""Attention of EAGLE's draft steps on the CPU: one back end a step, each seeing its own branch only."""

from typing import Any

import torch
from sglang.srt.runtime_context import attention_backends
from torch import Tensor

from k25serve.patches.reference.attention import Block, pad_slots
from k25serve.patches.reference.backend import ReferenceBackend

NAME = "torch_native"
"""The `--attention-backend` whose place the reference takes."""


class MultiStepDraftBackend:
    """Container that SGLang's EAGLE worker asks for (`EagleDraftWorker.draft_attn_backend`, SGLang 0.5.23).

    A draft of `num_steps` tokens runs the draft model `num_steps - 1` times (the first token comes from draft extend).
    `attn_backends[i]` serves step i, in which each of the `bs * topk` branches has written i + 1 tokens.
    """

    def __init__(self, runner: Any, topk: int, num_steps: int) -> None:
        """`runner`: the draft model's ModelRunner. Raises ValueError for a tree over pages larger than one token."""
        if topk > 1 and runner.page_size > 1:
            raise ValueError(
                f"page_size {runner.page_size} with speculative_eagle_topk {topk}: use --page-size 1 on the CPU"
            )
        self.topk = topk
        self.num_steps = num_steps
        self.attn_backends = [ReferenceBackend(runner) for _ in range(num_steps - 1)]
        self.req_to_token_pool = runner.req_to_token_pool
        self.prefill_attention_backend_str = NAME
        self.decode_attention_backend_str = NAME
        for child in self.attn_backends:
            child.prefill_attention_backend_str = NAME
            child.decode_attention_backend_str = NAME

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Plan every step at once from `req_pool_indices` and `seq_lens` [bs], which do not count the draft."""
        table = self.req_to_token_pool.req_to_token
        for step, child in enumerate(self.attn_backends):
            slots, kv_lens = branch_slots(
                table, forward_batch.req_pool_indices, forward_batch.seq_lens, self.topk, self.num_steps, step
            )
            visible = torch.arange(slots.shape[1]) < kv_lens[:, None]
            child.blocks = (Block(slice(0, len(kv_lens)), slots, visible[:, None, :]),)


def branch_slots(
    req_to_token: Tensor, requests: Tensor, seq_lens: Tensor, topk: int, num_steps: int, step: int
) -> tuple[Tensor, Tensor]:
    """KV rows of every branch at a draft step: the request's prefix, then the branch's own tokens up to this step.

    SGLang reserves `topk * num_steps` slots after the prefix, `num_steps` in a row for each branch. Shapes:
    `requests`, `seq_lens` [bs]; result (`slots` int64 [bs * topk, width], `kv_lens` [bs * topk]), ordered by request,
    then branch, padded as in `attention.pad_slots`.
    """
    seq_lens = seq_lens.long().repeat_interleave(topk)
    branch = torch.arange(topk).repeat(len(requests))
    kv_lens = seq_lens + step + 1
    column = torch.arange(int(kv_lens.max()))
    own = column >= seq_lens[:, None]
    position = column + torch.where(own, branch[:, None] * num_steps, 0)
    position = torch.where(column < kv_lens[:, None], position, 0)
    slots = req_to_token[requests.long().repeat_interleave(topk)[:, None], position].long()
    return pad_slots(slots, kv_lens), kv_lens


def create_decode_backend(factory: Any) -> MultiStepDraftBackend | None:
    """Takes the place of `DraftBackendFactory.create_decode_backend` (`srt/speculative/draft_utils.py`).

    None where the draft model never decodes (0 or 1 steps), as upstream. Raises ValueError for another back end.
    """
    if factory.speculative_num_steps <= 1:
        return None
    _require_reference(factory.draft_attn_backend or attention_backends()[1])
    return MultiStepDraftBackend(factory.draft_model_runner, factory.topk, factory.speculative_num_steps)


def create_draft_extend_backend(factory: Any) -> ReferenceBackend:
    """Takes the place of `DraftBackendFactory.create_draft_extend_backend`. Raises ValueError for another back end."""
    _require_reference(factory.draft_attn_backend or attention_backends()[0])
    backend = ReferenceBackend(factory.draft_model_runner)
    backend.prefill_attention_backend_str = NAME
    backend.decode_attention_backend_str = NAME
    return backend


def _require_reference(name: str) -> None:
    if name != NAME:
        raise ValueError(f"attention backend {name!r}: the CPU reference serves {NAME!r} only; drop the backend flags")
