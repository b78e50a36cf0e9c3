"""Kimi-K2.5's geometry as one rank of TP=8 holds it, made on the spot: fewer layers, random weights, bf16.

Heads, expert width and dense width are an eighth of the whole model's for each rank, so a step at TP=1 moves what a
rank of TP=8 moves in as many layers (facts: hidden 7168, 64 heads, 384 experts of width 2048, top 8, MLA 512 + 64).
Weights are bf16: the real ones are INT4, so that expert reads are four times as many bytes here.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from k25serve.bench.gpu.booted import ProofError
from k25serve.drafters.tiny import TARGET

HIDDEN, EXPERTS, TOP_EXPERTS = 7168, 384, 8
HEADS, EXPERT_WIDTH, DENSE_WIDTH, VOCABULARY = 8, 256, 2304, 20480  # a rank of TP=8
LAYERS = 6  # 23 GB at TP=1, so that a GPU holds an engine of every arm
LEAST_LAYERS = 5
CONTEXT = 40960
DRAFT_VOCABULARY = 4096  # an eighth of 32K
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")


def write_target(folder: Path, eighths: int, layers: int = LAYERS) -> Path:
    """Config and tokenizer of so many eighths of the model; the engine makes the weights (`--load-format dummy`)."""
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copy(TARGET / name, folder)
    text: dict[str, Any] = json.loads((TARGET / "config.json").read_text())["text_config"]
    text |= {
        "vocab_size": VOCABULARY * eighths,
        "hidden_size": HIDDEN,
        "intermediate_size": DENSE_WIDTH * eighths,
        "moe_intermediate_size": EXPERT_WIDTH * eighths,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS * eighths,
        "num_key_value_heads": HEADS * eighths,
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": TOP_EXPERTS,
        "routed_scaling_factor": 2.827,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": CONTEXT,
        "rope_scaling": text["rope_scaling"] | {"original_max_position_embeddings": CONTEXT // 4},
    }
    (folder / "config.json").write_text(json.dumps(text, indent=1))
    return folder


def aux_layers(layers: int) -> list[int]:
    """Three layers whose inputs the drafter takes, ascending, under numbers that every engine takes as they are.

    SGLang adds one to all where the first is 1 (models/deepseek_v2.py set_eagle3_layers_to_capture), and what enters
    layer `layers` is never captured. Raises ProofError where the target has no such three.
    """
    if layers < LEAST_LAYERS:
        raise ProofError(f"layers {layers}: an EAGLE-3 drafter takes states of layers 2, 3 and 4; give {LEAST_LAYERS}")
    return [2, max(3, layers // 2), layers - 1]


def write_drafter(folder: Path, eighths: int, layers: int = LAYERS) -> Path:
    """A random EAGLE-3 drafter for it: one Llama layer, 8 heads an eighth, a pruned vocabulary. Needs torch.

    Raises ProofError, before anything is written, for a target of too few layers.
    """
    import torch
    from safetensors.torch import save_file

    aux = aux_layers(layers)
    folder.mkdir(parents=True)
    heads, head_dim, width, vocabulary = HEADS * eighths, 128, DENSE_WIDTH * eighths, DRAFT_VOCABULARY * eighths
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "vocab_size": VOCABULARY * eighths,
        "draft_vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 50000.0,
        "rope_scaling": None,
        "max_position_embeddings": CONTEXT,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": aux,
            "use_aux_hidden_state": True,
        },
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    attention, shapes = heads * head_dim, {}
    for name in ("q_proj", "k_proj", "v_proj"):
        shapes[f"midlayer.self_attn.{name}.weight"] = (attention, 2 * HIDDEN)
    shapes |= {
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "midlayer.self_attn.o_proj.weight": (HIDDEN, attention),
        "midlayer.mlp.gate_proj.weight": (width, HIDDEN),
        "midlayer.mlp.up_proj.weight": (width, HIDDEN),
        "midlayer.mlp.down_proj.weight": (HIDDEN, width),
        "lm_head.weight": (vocabulary, HIDDEN),
    }
    draw = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.empty(shape, dtype=torch.bfloat16).normal_(0, 0.02, generator=draw)
        for name, shape in shapes.items()
    }
    for name in ("midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm"):
        tensors[f"{name}.weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)
    # The beginning, where the packaged tokenizer has its special tokens, and every so manieth id after it.
    head = vocabulary // 2
    rest = torch.arange(vocabulary - head) * ((VOCABULARY * eighths - head) // (vocabulary - head))
    hot = torch.cat([torch.arange(head), head + rest])
    tensors["d2t"] = hot - torch.arange(vocabulary)
    tensors["t2d"] = torch.zeros(VOCABULARY * eighths, dtype=torch.bool).index_fill_(0, hot, True)
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_profile(path: Path, target: Path, ranks: int) -> Path:
    """The profile that the arms start from: no speculation."""
    profile = {
        "target": str(target),
        "served_model_name": "k25-rank",
        "context_length": CONTEXT - 1024,
        "engine": {
            "device": "cuda",
            "tp": ranks,
            "attention_backend": "triton",
            "mem_fraction_static": 0.85,
            "max_total_tokens": 600_000,
            "max_running_requests": 64,
            "cuda_graph_batch_sizes": [1, 4, 16, 64],
            "ready_timeout_s": 600,
        },
    }
    path.write_text(json.dumps(profile, indent=1))  # JSON is YAML
    return path
