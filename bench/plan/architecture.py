"""The model's sizes, from its config.json: what a step must read and compute on one GPU."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from k25serve.bench.plan.data_files import choose, from_file, is_file, packaged
from k25serve.server.config.fault import first_fault
from k25serve.server.config.shown import one_line
from k25serve.server.errors import UserError

SCALE_BITS = 16
Size = Annotated[int, Field(ge=1, le=1 << 32)]
Bits = Annotated[float, Field(gt=0, le=64)]


class Architecture(BaseModel):
    """A DeepSeek-V3-shaped MoE with MLA; names as in config.json. `*_bits`: per weight, scales included."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    hidden_size: Size
    num_hidden_layers: Size
    first_k_dense_replace: int = Field(ge=0)
    intermediate_size: Size
    moe_intermediate_size: Size
    n_routed_experts: Size
    num_experts_per_tok: Size
    n_shared_experts: int = Field(ge=0, le=1 << 16)
    num_attention_heads: Size
    q_lora_rank: Size
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size
    v_head_dim: Size
    vocab_size: Size
    expert_bits: Bits = 4.5
    dense_bits: Bits = 16
    kv_bits: Bits = 16

    @model_validator(mode="after")
    def _parts_fit_the_whole(self) -> "Architecture":
        if self.first_k_dense_replace > self.num_hidden_layers:
            raise ValueError(f"first_k_dense_replace {self.first_k_dense_replace} is above num_hidden_layers")
        if self.num_experts_per_tok > self.n_routed_experts:
            raise ValueError(f"num_experts_per_tok {self.num_experts_per_tok} is above n_routed_experts")
        return self

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


def _expert_bits(place: str, quantization: Any) -> float:
    """Bits of an expert's weight with its scale, from config.json's quantization_config; 16 without one.

    Only the routed experts are taken as quantized, as Kimi-K2.5's INT4 is.
    """
    if not quantization:
        return 16.0
    try:
        (group,) = quantization["config_groups"].values()
        weights = group["weights"]
        return float(weights["num_bits"] + SCALE_BITS / weights["group_size"])
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise UserError(
            f"{place}: quantization_config is not one group of compressed-tensors weights ({error!r}); "
            "only that form is known, or none"
        ) from None


def load_architecture(name: str, option: str = "--model") -> Architecture:
    """A packaged model or a config.json (its `text_config` where it is a multimodal wrapper)."""
    path = Path(name)
    if not is_file(path):
        return Architecture.model_validate(choose(option, name, packaged("models")))
    place = f"{option} {path}"
    content = from_file(option, path)
    text = content.get("text_config", content)
    if not isinstance(text, dict):
        raise UserError(f"{place}: text_config holds no mapping; pass the model's own config.json")
    quantization = content.get("quantization_config") or text.get("quantization_config")
    try:
        return Architecture.model_validate({**text, "expert_bits": _expert_bits(place, quantization)})
    except ValidationError as error:
        told = first_fault(error, Architecture)
        raise UserError(one_line(f"{place}: not a DeepSeek-V3-shaped config: {told}")) from None
