"""A target of Kimi-K2.5's form and a drafter that fits it, small enough to write in a millisecond.

Like the real ones: head_dim (8) is not hidden_size // heads (4), special tokens are at the end of the vocabulary, the
draft vocabulary is reduced, d2t holds offsets.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drafter_files.files import Array, flags, int64, noise, write_folder

HIDDEN, LAYERS, VOCAB, HEADS, KV_HEADS, HEAD_DIM, INNER, CONTEXT = 16, 8, 40, 4, 2, 8, 24, 512
SPECIAL = {
    "<|im_end|>": 30,
    "[EOS]": 31,
    "<think>": 32,
    "</think>": 33,
    "<|tool_calls_section_begin|>": 34,
    "<|tool_calls_section_end|>": 35,
    "<|tool_call_begin|>": 36,
    "<|tool_call_argument_begin|>": 37,
    "<|tool_call_end|>": 38,
    "<|media_pad|>": 39,
}
HOT = (0, 1, 2, 3, 4, 5, *range(30, 40))
TARGET_CONFIG: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "tie_word_embeddings": False,
    "text_config": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "vocab_size": VOCAB,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 50000.0,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        "tie_word_embeddings": False,
        "bos_token_id": 29,
        "eos_token_id": 31,
        "torch_dtype": "bfloat16",
    },
}
TARGET_ARRAYS = {
    "vision_tower.patch_embed.weight": noise("vision", 3, 4),
    "language_model.model.embed_tokens.weight": noise("embed", VOCAB, HIDDEN),
    "language_model.model.layers.0.input_layernorm.weight": noise("norm0", HIDDEN),
    "language_model.model.norm.weight": noise("norm", HIDDEN),
    "language_model.lm_head.weight": noise("head", VOCAB, HIDDEN),
}
DRAFT_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCAB,
    "draft_vocab_size": len(HOT),
    "max_position_embeddings": CONTEXT,
    "rope_theta": 1e6,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5], "use_aux_hidden_state": True},
}
LAYER_ARRAYS = {
    "self_attn.q_proj.weight": noise("q", HEADS * HEAD_DIM, 2 * HIDDEN),
    "self_attn.k_proj.weight": noise("k", KV_HEADS * HEAD_DIM, 2 * HIDDEN),
    "self_attn.v_proj.weight": noise("v", KV_HEADS * HEAD_DIM, 2 * HIDDEN),
    "self_attn.o_proj.weight": noise("o", HIDDEN, HEADS * HEAD_DIM),
    "mlp.gate_proj.weight": noise("gate", INNER, HIDDEN),
    "mlp.up_proj.weight": noise("up", INNER, HIDDEN),
    "mlp.down_proj.weight": noise("down", HIDDEN, INNER),
    "input_layernorm.weight": noise("in", HIDDEN),
    "hidden_norm.weight": noise("hidden", HIDDEN),
    "post_attention_layernorm.weight": noise("post", HIDDEN),
}
OTHER_ARRAYS = {
    "fc.weight": noise("fc", HIDDEN, 3 * HIDDEN),
    "norm.weight": noise("n", HIDDEN),
    "lm_head.weight": noise("lm_head", len(HOT), HIDDEN),
    "d2t": int64(*(token - place for place, token in enumerate(HOT))),
    "t2d": flags(set(HOT), VOCAB),
}
MLA_CONFIG: dict[str, Any] = {
    key: value for key, value in DRAFT_CONFIG.items() if key not in ("num_key_value_heads", "head_dim")
} | {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "kimi_k2",
    "q_lora_rank": 6,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 5,
}
MLA_ARRAYS = {
    "layers.0.self_attn.q_a_proj.weight": noise("qa", 6, 2 * HIDDEN),
    "layers.0.self_attn.q_a_layernorm.weight": noise("qan", 6),
    "layers.0.self_attn.q_b_proj.weight": noise("qb", HEADS * 6, 6),
    "layers.0.self_attn.kv_a_proj_with_mqa.weight": noise("kva", 10, 2 * HIDDEN),
    "layers.0.self_attn.kv_a_layernorm.weight": noise("kvan", 8),
    "layers.0.self_attn.kv_b_proj.weight": noise("kvb", HEADS * 9, 8),
    "layers.0.self_attn.o_proj.weight": noise("mo", HIDDEN, HEADS * 5),
    **{f"layers.0.{name}": array for name, array in LAYER_ARRAYS.items() if not name.startswith("self_attn.")},
    **OTHER_ARRAYS,
}


def draft_arrays(layer: str = "midlayer.", other: str = "") -> dict[str, Array]:
    """The drafter's tensors under a layout's names."""
    bare = ("lm_head.weight", "d2t", "t2d")
    rest = {name if name in bare else other + name: array for name, array in OTHER_ARRAYS.items()}
    return {layer + name: array for name, array in LAYER_ARRAYS.items()} | rest


def tokenizer(special: Mapping[str, int] = SPECIAL, plain: Mapping[str, int] | None = None) -> dict[str, Any]:
    """tokenizer.json with `special` as added tokens."""
    vocabulary = plain or {f"t{token}": token for token in range(30)}
    added = [{"id": token, "content": text, "special": True} for text, token in special.items()]
    return {"added_tokens": added, "model": {"type": "BPE", "vocab": dict(vocabulary), "merges": []}}


def write_target(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    shards: int = 1,
    text: Mapping[str, Any] | None = None,
) -> Path:
    """The toy target; `text` changes keys of its text_config."""
    merged = {**TARGET_CONFIG, **(config or {})}
    merged["text_config"] = {**TARGET_CONFIG["text_config"], **(text or {})}
    write_folder(folder, merged, TARGET_ARRAYS if arrays is None else arrays, shards)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 30}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    return folder


def write_drafter(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array | None] | None = None,
    base: Mapping[str, Array] | None = None,
    base_config: Mapping[str, Any] = DRAFT_CONFIG,
    shards: int = 1,
) -> Path:
    """The toy drafter with keys and tensors changed; a tensor or key that is None is left out (`...` writes null)."""
    merged = {**base_config, **(config or {})}
    written = {key: (None if value is ... else value) for key, value in merged.items() if value is not None}
    if base_config.get("rope_scaling", 0) is None and "rope_scaling" not in (config or {}):
        written["rope_scaling"] = None
    every = {**(draft_arrays() if base is None else base), **(arrays or {})}
    return write_folder(folder, written, {name: array for name, array in every.items() if array is not None}, shards)
