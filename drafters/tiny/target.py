"""The target's shape and its torch module: transformers' DeepseekV3ForCausalLM, Kimi-K2.5's layout in small."""

from copy import deepcopy
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from k25serve.drafters.tiny.tokenizer import VOCAB_SIZE

CONTEXT_LENGTH = 4096
# kv_lora_rank and qk_rope_head_dim are the real model's, since MLA kernels are built for 512 + 64. Everything that
# tensor parallelism splits is even.
TEXT_CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 256,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_shared_experts": 1,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 64,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 64,
    "v_head_dim": 32,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "max_position_embeddings": CONTEXT_LENGTH,
    "rope_theta": 50000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 1024,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    },
    "num_nextn_predict_layers": 0,
    "tie_word_embeddings": False,
    "use_cache": True,
}


def build_target() -> DeepseekV3ForCausalLM:
    """A freshly initialised target in fp32 on the CPU, from torch's current seed."""
    config = DeepseekV3Config(**deepcopy(TEXT_CONFIG))  # it writes into the rope dict that it is given
    model = DeepseekV3ForCausalLM(config)
    return use_dense_experts(model)


def use_dense_experts(model: DeepseekV3ForCausalLM) -> DeepseekV3ForCausalLM:
    """Compute all experts in one product and weigh those not chosen by 0.

    The same sums as transformers' loop, and faster at this size: the eight experts together are one small matrix.
    """
    for layer in moe_layers(model):
        layer.experts.forward = MethodType(_dense_experts, layer.experts)
    return model


def moe_layers(model: DeepseekV3ForCausalLM) -> list[Any]:
    """The MoE blocks, in layer order."""
    return [layer.mlp for layer in model.model.layers if hasattr(layer.mlp, "experts")]


def _dense_experts(self: Any, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """hidden [tokens, H], chosen and weights [tokens, top_k] -> [tokens, H]."""
    share = hidden.new_zeros(hidden.shape[0], self.num_experts).scatter(1, chosen, weights.to(hidden.dtype))
    both = F.linear(hidden, self.gate_up_proj.flatten(0, 1))
    gate, up = both.view(len(hidden), self.num_experts, -1).chunk(2, dim=-1)
    inner = (F.silu(gate) * up * share[..., None]).flatten(1)  # [tokens, experts * m]
    return F.linear(inner, self.down_proj.transpose(0, 1).flatten(1))
