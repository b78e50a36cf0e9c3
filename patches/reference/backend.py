"""The attention back end in the place of `torch_native` on the CPU: MLA, MHA and GQA, EAGLE and n-gram verify."""

from collections.abc import Sequence
from typing import Any

from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.memory_pool import KVWriteLoc
from sglang.srt.models.deepseek_common.attention_forward_methods.forward_methods import AttnForwardMethod
from torch import Tensor

from k25serve.patches.reference.attention import Block, attend, gather, plan_blocks


class ReferenceBackend(AttentionBackend):  # type: ignore[misc]  # SGLang ships no types
    """`AttentionBackend` of SGLang 0.5.23 over `attention.attend`: one formula for every forward mode.

    SGLang calls `init_forward_metadata` once a forward and `forward` (in the base class) once a layer.
    Page size 1 or more, since only `req_to_token` is read. No CUDA or CPU graphs, no LSE output.
    """

    def __init__(self, runner: Any) -> None:
        """`runner`: SGLang's ModelRunner, its KV pools already made."""
        super().__init__()
        self.req_to_token_pool = runner.req_to_token_pool
        self.token_to_kv_pool = runner.token_to_kv_pool
        self.device = runner.device
        self.blocks: tuple[Block, ...] = ()

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Plan the blocks of this forward from `ForwardBatch`.

        Read from it: `req_pool_indices`, `seq_lens` [bs]; for prefill and draft extend `extend_seq_lens` [bs], then
        `seq_lens` counts the new tokens; for a target verify `spec_info.draft_token_num` (n) and
        `spec_info.custom_mask` bool [bs * n * n], and `seq_lens` does not count the draft. A chain (`tree_topk` 1)
        needs no mask: causal order is the chain.
        """
        mode, requests, kv_lens = forward_batch.forward_mode, forward_batch.req_pool_indices, forward_batch.seq_lens
        tree: Tensor | None = None
        q_lens: Sequence[int]
        if mode.is_idle():
            self.blocks = ()
            return
        if mode.is_decode():
            q_lens = [1] * len(kv_lens)
        elif mode.is_target_verify():
            spec = forward_batch.spec_info
            n = spec.draft_token_num
            q_lens, kv_lens = [n] * len(kv_lens), kv_lens + n
            if spec.tree_topk != 1:
                tree = spec.custom_mask.view(-1, n, n)
        else:
            q_lens = forward_batch.extend_seq_lens.tolist()
        self.blocks = tuple(plan_blocks(self.req_to_token_pool.req_to_token, requests, kv_lens, q_lens, tree))

    def forward_extend(
        self, q: Tensor, k: Tensor, v: Tensor, layer: Any, forward_batch: Any, save_kv_cache: bool = True
    ) -> Tensor:
        """Write this layer's new keys and values, then attend over the cache.

        Shapes: `q` [tokens, heads * dim]; `k` [tokens, kv_heads, dim], for MLA the latent and its rope part; `v`
        [tokens, kv_heads, v_dim], for MLA the latent; result [tokens, heads * v_dim] in q's dtype.
        Raises NotImplementedError for layers with features outside the reference, ValueError if the batch's rows do not
        match the plan.
        """
        _refuse_unsupported(layer)
        if save_kv_cache and k is not None:
            self.token_to_kv_pool.set_kv_buffer(layer, KVWriteLoc(forward_batch.out_cache_loc, None), k, v)
        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        q = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        if q.shape[0] != self.blocks[-1].rows.stop:
            raise ValueError(
                f"layer {layer.layer_id}: {q.shape[0]} query rows, but {self.blocks[-1].rows.stop} were planned"
            )
        out = q.new_empty(q.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        # MLA's values are the first columns of its keys: one gather serves both.
        latent = values.data_ptr() == keys.data_ptr()
        for block in self.blocks:
            queries = q[block.rows].view(*block.visible.shape[:2], *q.shape[1:])
            seen_keys = gather(keys, block.slots)
            seen_values = seen_keys[..., : layer.v_head_dim] if latent else gather(values, block.slots)
            attended = attend(queries, seen_keys, seen_values, block.visible, layer.scaling, layer.logit_cap)
            out[block.rows] = attended.flatten(0, 1).to(out.dtype)
        return out.flatten(1)

    forward_decode = forward_extend

    def support_triton(self) -> bool:
        """No Triton on the CPU: SGLang then takes its torch paths around attention."""
        return False


def create_backend(runner: Any) -> ReferenceBackend:
    """Factory in `ATTENTION_BACKENDS["torch_native"]` of `srt/layers/attention/attention_registry.py`."""
    return ReferenceBackend(runner)


def always_absorbed_mla(attention: Any, forward_batch: Any) -> Any:
    """MLA dispatch for `torch_native`: the absorbed form in every phase.

    Without it SGLang takes the "triton" handler, which computes a prompt without prefix as plain MHA with 192-wide
    keys while the cache holds the 576-wide latent. Registered in `AttentionBackendRegistry` of
    `srt/models/deepseek_common/attention_backend_handler.py`.
    """
    return AttnForwardMethod.MLA


def _refuse_unsupported(layer: Any) -> None:
    features = {
        "sliding_window_size": layer.sliding_window_size > -1,
        "is_cross_attention": layer.is_cross_attention,
        "attn_type": layer.attn_type != AttentionType.DECODER,
    }
    for field, used in features.items():
        if used:
            raise NotImplementedError(
                f"layer {layer.layer_id}: {field}={getattr(layer, field)!r} is not in the CPU reference; "
                "serve this model on a GPU"
            )
