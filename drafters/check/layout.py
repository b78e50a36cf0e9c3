"""The tensors that SGLang's two EAGLE-3 draft models take, as data.

A shape is written in symbols: `config` gives their values (see `dimensions`). Sources, SGLang 0.5.23:
models/llama_eagle3.py (LlamaForCausalLMEagle3), models/kimi_k25_eagle3.py (Eagle3DeepseekV2ForCausalLM).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LLAMA, MLA = "LlamaForCausalLMEagle3", "Eagle3DeepseekV2ForCausalLM"

Shape = tuple[str, ...]
_MLP: dict[str, Shape] = {
    "mlp.gate_proj.weight": ("I", "H"),
    "mlp.up_proj.weight": ("I", "H"),
    "mlp.down_proj.weight": ("H", "I"),
    "input_layernorm.weight": ("H",),
    "hidden_norm.weight": ("H",),
    "post_attention_layernorm.weight": ("H",),
}
LAYER: dict[str, dict[str, Shape]] = {
    LLAMA: {
        "self_attn.q_proj.weight": ("heads*head_dim", "in"),
        "self_attn.k_proj.weight": ("kv_heads*head_dim", "in"),
        "self_attn.v_proj.weight": ("kv_heads*head_dim", "in"),
        "self_attn.o_proj.weight": ("H", "heads*head_dim"),
        **_MLP,
    },
    MLA: {
        "self_attn.q_a_proj.weight": ("q_lora", "in"),
        "self_attn.q_a_layernorm.weight": ("q_lora",),
        "self_attn.q_b_proj.weight": ("heads*qk", "q_lora"),
        "self_attn.kv_a_proj_with_mqa.weight": ("kv_lora+rope", "in"),
        "self_attn.kv_a_layernorm.weight": ("kv_lora",),
        "self_attn.kv_b_proj.weight": ("heads*(nope+v)", "kv_lora"),
        "self_attn.o_proj.weight": ("H", "heads*v"),
        **_MLP,
    },
}
# Judged by rules of their own: head, embeddings, vocabulary map.
OWN_RULE = ("lm_head.weight", "embed_tokens.weight", "d2t", "t2d")
# Buffers that no parameter waits for; nothing is lost with them.
HARMLESS = re.compile(r"(^|\.)rotary_emb\.inv_freq$")
_LEGACY_NORMS = {"aux_norm_low": "fc_norm.0", "aux_norm_mid": "fc_norm.1", "aux_norm_high": "fc_norm.2"}


@dataclass(frozen=True)
class Expected:
    """Canonical names (`layers.0.…`, no prefix) and their shapes in symbols."""

    shapes: dict[str, Shape]

    def __contains__(self, name: str) -> bool:
        return name in self.shapes


def expected_tensors(architecture: str, config: Mapping[str, Any], aux_states: int) -> Expected:
    """Every tensor that must be there, without those of `OWN_RULE`; aux_states: how many states fc takes."""
    shapes: dict[str, Shape] = {"fc.weight": ("H", "fc_in"), "norm.weight": ("H",)}
    if config.get("bias"):
        shapes["fc.bias"] = ("H",)
    if architecture == LLAMA and norm_before_fc(config):
        shapes["input_norm.weight"] = ("fc_in",)
    if config.get("fc_norm") or config.get("use_aux_norm"):
        shapes |= {f"fc_norm.{index}.weight": ("target_H",) for index in range(aux_states)}
    # The MLA model has one layer whatever the config says; rule `settings` refuses more.
    for layer in range(config["num_hidden_layers"] if architecture == LLAMA else 1):
        for name, shape in LAYER[architecture].items():
            wide = tuple("2H" if size == "in" and layer == 0 else "H" if size == "in" else size for size in shape)
            shapes[f"layers.{layer}.{name}"] = wide
        if architecture == LLAMA and (config.get("attention_bias") or config.get("bias")):
            shapes[f"layers.{layer}.self_attn.o_proj.bias"] = ("H",)
    return Expected(shapes)


def canonical_name(architecture: str, name: str) -> str | None:
    """The canonical name under which SGLang finds `name`; None where SGLang drops it without a word."""
    if architecture == LLAMA:
        # load_weights replaces substrings and takes a name with or without `model.`.
        for legacy, new in {"midlayer": "layers.0", **_LEGACY_NORMS}.items():
            name = name.replace(legacy, new)
        if name.startswith("model.lm_head"):
            return None
        return name.removeprefix("model.")
    # This model's load_weights adds `model.` itself, so that a name that has it already is lost.
    return None if name.startswith("model.") else re.sub(r"^midlayer\.", "layers.0.", name)


def norm_before_fc(config: Mapping[str, Any]) -> bool:
    """`norm_before_fc`, in eagle_config or at the top."""
    eagle = config.get("eagle_config")
    inner = eagle.get("norm_before_fc") if isinstance(eagle, dict) else None
    return bool(config.get("norm_before_fc", False) if inner is None else inner)


def dimensions(
    architecture: str, config: Mapping[str, Any], head_dim: int, target_hidden: int, fc_in: int
) -> dict[str, int]:
    """The value of each symbol in `LAYER`."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    sizes = {"H": hidden, "2H": 2 * hidden, "I": config["intermediate_size"], "target_H": target_hidden, "fc_in": fc_in}
    if architecture == LLAMA:
        kv_heads = config["num_key_value_heads"]
        return sizes | {"heads*head_dim": heads * head_dim, "kv_heads*head_dim": kv_heads * head_dim}
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    return sizes | {
        "q_lora": config["q_lora_rank"],
        "kv_lora": config["kv_lora_rank"],
        "kv_lora+rope": config["kv_lora_rank"] + rope,
        "heads*qk": heads * (nope + rope),
        "heads*(nope+v)": heads * (nope + value),
        "heads*v": heads * value,
    }
