"""Kimi-K2's drafter and Kimi-K2.5 INT4 at full width: real names and shapes in the headers, holes for weights."""

import json
from pathlib import Path
from typing import Any

from drafter_files.files import INDEX, Array, flags, hole, int64, write_file, write_folder

HIDDEN, LAYERS, VOCAB, HEADS, EXPERTS, INNER, EXPERT_INNER = 7168, 61, 163840, 64, 384, 18432, 2048
DRAFT_VOCAB, GROUP = 32000, 32
SPECIAL = {
    "[BOS]": 163584,
    "[EOS]": 163585,
    "<|im_end|>": 163586,
    "<|tool_calls_section_begin|>": 163595,
    "<|tool_calls_section_end|>": 163596,
    "<|tool_call_begin|>": 163597,
    "<|tool_call_argument_begin|>": 163598,
    "<|tool_call_end|>": 163599,
    "<think>": 163606,
    "</think>": 163607,
}
# What a K2 drafter may hold: frequent low ids, the end of a turn, no thinking.
HOT = (*range(0, 95997, 3)[: DRAFT_VOCAB - 2], 163585, 163586)
K2_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCAB,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 163584,
    "eos_token_id": 163585,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 29, 57], "use_aux_hidden_state": True},
}


def write_k2_drafter(folder: Path) -> Path:
    """2.4 GB by its header: absolute d2t, no head_dim, no draft_vocab_size, context 131072, output convention."""
    layer, wide = "model.layers.0.", 2 * HIDDEN
    arrays = {
        f"{layer}self_attn.q_proj.weight": hole(HEADS * 128, wide),
        f"{layer}self_attn.k_proj.weight": hole(HEADS * 128, wide),
        f"{layer}self_attn.v_proj.weight": hole(HEADS * 128, wide),
        f"{layer}self_attn.o_proj.weight": hole(HIDDEN, HEADS * 128),
        f"{layer}mlp.gate_proj.weight": hole(INNER, HIDDEN),
        f"{layer}mlp.up_proj.weight": hole(INNER, HIDDEN),
        f"{layer}mlp.down_proj.weight": hole(HIDDEN, INNER),
        f"{layer}input_layernorm.weight": hole(HIDDEN),
        f"{layer}hidden_norm.weight": hole(HIDDEN),
        f"{layer}post_attention_layernorm.weight": hole(HIDDEN),
        "model.fc.weight": hole(HIDDEN, 3 * HIDDEN),
        "model.norm.weight": hole(HIDDEN),
        "lm_head.weight": hole(DRAFT_VOCAB, HIDDEN),
        "d2t": int64(*HOT),
        "t2d": flags(set(HOT), VOCAB),
    }
    return write_folder(folder, K2_CONFIG, arrays)


def write_k25_target(folder: Path) -> Path:
    """547 GB by its headers in 64 shards: experts as compressed-tensors packs INT4 in groups of 32, all else bf16."""
    folder.mkdir(parents=True)
    text = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "vocab_size": VOCAB,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 262144,
        "rope_theta": 50000.0,
        "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
        "tie_word_embeddings": False,
        "bos_token_id": 163584,
        "eos_token_id": 163585,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    }
    config = {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "text_config": text}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 163586}))
    (folder / "tiktoken.model").write_bytes(b"ranks")
    decoder = {str(token): {"content": name, "special": True} for name, token in SPECIAL.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    weight_map = {}
    for number, arrays in enumerate(_shards(), 1):
        file = f"model-{number:05}-of-00064.safetensors"
        write_file(folder / file, arrays)
        weight_map |= dict.fromkeys(arrays, file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def _shards() -> list[dict[str, Array]]:
    first = {"language_model.model.embed_tokens.weight": hole(VOCAB, HIDDEN)}
    middle = [_layer(layer) for layer in range(LAYERS)]
    last = {"language_model.model.norm.weight": hole(HIDDEN), "language_model.lm_head.weight": hole(VOCAB, HIDDEN)}
    vision = {"vision_tower.patch_embed.proj.weight": hole(1152, 3, 14, 14)}
    return [first, *middle, last, vision]


def _layer(layer: int) -> dict[str, Array]:
    prefix = f"language_model.model.layers.{layer}."
    attention = {
        "q_a_proj": (1536, HIDDEN),
        "q_b_proj": (HEADS * 192, 1536),
        "kv_a_proj_with_mqa": (576, HIDDEN),
        "kv_b_proj": (HEADS * 256, 512),
        "o_proj": (HIDDEN, HEADS * 128),
    }
    arrays = {f"{prefix}self_attn.{name}.weight": hole(*shape) for name, shape in attention.items()}
    arrays |= {f"{prefix}{name}_layernorm.weight": hole(HIDDEN) for name in ("input", "post_attention")}
    if layer == 0:
        return arrays | {f"{prefix}mlp.{name}.weight": hole(*shape) for name, shape in _mlp(INNER).items()}
    shared = {f"{prefix}mlp.shared_experts.{name}.weight": hole(*s) for name, s in _mlp(EXPERT_INNER).items()}
    for expert in range(EXPERTS):
        for name, (rows, columns) in _mlp(EXPERT_INNER).items():
            stem = f"{prefix}mlp.experts.{expert}.{name}"
            arrays[f"{stem}.weight_packed"] = hole(rows, columns // 8, dtype="I32")
            arrays[f"{stem}.weight_scale"] = hole(rows, columns // GROUP)
            arrays[f"{stem}.weight_shape"] = hole(2, dtype="I32")
    return arrays | shared | {f"{prefix}mlp.gate.weight": hole(EXPERTS, HIDDEN)}


def _mlp(inner: int) -> dict[str, tuple[int, int]]:
    return {"gate_proj": (inner, HIDDEN), "up_proj": (inner, HIDDEN), "down_proj": (HIDDEN, inner)}
