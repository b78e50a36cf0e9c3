"""What a target's config.json says of its cost: parameters, bytes, hidden states."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError
from k25serve.drafters.checkpoint.json_file import read_object

STATES = 4  # three auxiliary layers and the last
BF16 = 2


@dataclass(frozen=True)
class TargetFacts:
    """Sizes of a decoder, MLA or grouped attention, dense or MoE. Bytes of weights are all ranks' together."""

    name: str
    hidden_size: int
    layers: int
    heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    parameters: int
    active_parameters: int
    weight_bytes: int
    weights_from: str
    kv_bytes_per_token: int

    @property
    def hidden_bytes_per_token(self) -> int:
        """Hidden states of a token as captured: [4, H] bf16."""
        return STATES * self.hidden_size * BF16


def read_target(folder: Path) -> TargetFacts:
    """From config.json; bytes of weights from the safetensors beside it where there are any.

    Raises CheckpointError where a size is missing.
    """
    path = folder / "config.json"
    config = read_object(path)
    text = config.get("text_config")
    sizes = _Sizes(path, text if isinstance(text, dict) else config)
    hidden, layers, vocab = sizes("hidden_size"), sizes("num_hidden_layers"), sizes("vocab_size")
    heads, inner = sizes("num_attention_heads"), sizes("intermediate_size")
    attention, kv, head_dim = _attention(sizes, hidden, heads)
    experts = sizes.get("n_routed_experts", sizes.get("num_experts", 0))
    dense_layers = min(layers, sizes.get("first_k_dense_replace", 0)) if experts else layers
    expert = 3 * hidden * sizes("moe_intermediate_size") if experts else 0
    routed = (layers - dense_layers) * experts * expert
    fixed = layers * attention + dense_layers * 3 * hidden * inner + vocab * hidden
    fixed += (layers - dense_layers) * (sizes.get("n_shared_experts", 0) * expert + experts * hidden)
    chosen = (layers - dense_layers) * sizes("num_experts_per_tok") * expert if experts else 0
    files = sorted(folder.glob("*.safetensors"))
    bits = _expert_bits(config, sizes.values)
    computed = round(routed * bits / 8) + (fixed + vocab * hidden) * BF16
    return TargetFacts(
        name=str(sizes.values.get("_name_or_path") or folder.name),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        head_dim=head_dim,
        intermediate_size=inner,
        vocab_size=vocab,
        parameters=routed + fixed + vocab * hidden,
        active_parameters=fixed + chosen,
        weight_bytes=sum(file.stat().st_size for file in files) if files else computed,
        weights_from="the size of its files" if files else f"config.json, {bits:g} bits a parameter of an expert",
        kv_bytes_per_token=layers * kv * BF16,
    )


class _Sizes:
    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path = path
        self.values = values

    def __call__(self, key: str) -> int:
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CheckpointError(
                f"{self.path}: {key} is {json.dumps(value)}, a positive integer belongs there; "
                "point --target at the target's own folder"
            )
        return value

    def get(self, key: str, default: int) -> int:
        return self(key) if self.values.get(key) else default


def _attention(sizes: _Sizes, hidden: int, heads: int) -> tuple[int, int, int]:
    """Parameters of a layer's attention, numbers that it caches of a token, and the head's width."""
    if "kv_lora_rank" in sizes.values:
        latent, nope = sizes("kv_lora_rank"), sizes("qk_nope_head_dim")
        rope, value = sizes("qk_rope_head_dim"), sizes("v_head_dim")
        query = heads * (nope + rope)
        low = sizes.get("q_lora_rank", 0)
        down = low * (hidden + query) if low else hidden * query
        parameters = down + hidden * (latent + rope) + latent * heads * (nope + value) + heads * value * hidden
        return parameters, latent + rope, value
    head_dim = sizes.get("head_dim", hidden // heads)
    kv = sizes.get("num_key_value_heads", heads) * head_dim
    return hidden * (2 * heads * head_dim + 2 * kv), 2 * kv, head_dim


def _expert_bits(config: dict[str, Any], text: dict[str, Any]) -> float:
    """Of a routed expert's parameter: compressed-tensors' weight bits and a bf16 scale a group; else 16."""
    found = config.get("quantization_config") or text.get("quantization_config") or {}
    for group in (found.get("config_groups") or {}).values():
        weights = group.get("weights") or {}
        bits, size = weights.get("num_bits"), weights.get("group_size")
        if isinstance(bits, int) and bits > 0:
            return bits + (16 / size if isinstance(size, int) and size > 0 else 0)
    return 16
