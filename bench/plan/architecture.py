"""The model's sizes, from its config.json: what a step must read and compute on one GPU."""

from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from k25serve.bench.plan.data_files import choose, packaged
from k25serve.server.errors import UserError

SCALE_BITS = 16


class Architecture(BaseModel):
    """A DeepSeek-V3-shaped MoE with MLA; names as in config.json. `*_bits`: per weight, scales included."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    hidden_size: int
    num_hidden_layers: int
    first_k_dense_replace: int
    intermediate_size: int
    moe_intermediate_size: int
    n_routed_experts: int
    num_experts_per_tok: int
    n_shared_experts: int
    num_attention_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    vocab_size: int
    expert_bits: float = 4.5
    dense_bits: float = 16
    kv_bits: float = 16

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.num_hidden_layers - self.first_k_dense_replace

    @property
    def token_bytes(self) -> int:
        """One token's hidden state in 16 bits: what an all-reduce carries for it."""
        return 2 * self.hidden_size

    def unique_experts(self, tokens: float) -> float:
        """Experts of a layer that `tokens` tokens touch if they route independently: E (1 - (1 - K/E)^n).

        MoESD (arXiv 2505.19645) uses the same form. Tokens of one request share experts, so the truth is lower.
        """
        experts = self.n_routed_experts
        return float(experts * (1 - (1 - self.num_experts_per_tok / experts) ** tokens))


def _expert_bits(path: Path, quantization: dict[str, Any]) -> float:
    """Bits of an expert's weight with its scale, from config.json's quantization_config; 16 without one.

    Only the routed experts are taken as quantized, as Kimi-K2.5's INT4 is.
    """
    if not quantization:
        return 16.0
    try:
        (group,) = quantization["config_groups"].values()
        weights = group["weights"]
        return float(weights["num_bits"] + SCALE_BITS / weights["group_size"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"--model {path}: quantization_config is not one group of compressed-tensors weights ({error!r}); "
            "only that form is known, or none"
        ) from None


def load_architecture(name: str) -> Architecture:
    """A packaged model or a config.json (its `text_config` where it is a multimodal wrapper)."""
    path = Path(name)
    if not path.is_file():
        return Architecture.model_validate(choose("--model", name, packaged("models")))
    try:
        content = orjson.loads(path.read_bytes())
        text = content.get("text_config", content)
        quantization = content.get("quantization_config") or text.get("quantization_config") or {}
        return Architecture.model_validate({**text, "expert_bits": _expert_bits(path, quantization)})
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise UserError(f"--model {path}: not a config.json ({error})") from None
    except ValidationError as error:
        missing = ", ".join(str(one["loc"][0]) for one in error.errors())
        raise UserError(f"--model {path}: not a DeepSeek-V3-shaped config; wrong or missing: {missing}") from None
