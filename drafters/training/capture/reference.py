"""States of a plain forward of the target, for targets that one fits here."""

from pathlib import Path
from typing import TYPE_CHECKING

from k25serve.drafters.checkpoint.target import Target

if TYPE_CHECKING:
    import torch
    from transformers import DeepseekV3ForCausalLM

WEIGHTS_AT_MOST = 4 << 30  # bytes on the disk, twice that in memory as fp32
FILE = "model.safetensors"


def why_not(target: Path) -> str | None:
    """Why there is no plain forward of this target here; None where there is."""
    config = Target(target)
    if config.quantization is not None:
        return "its weights are quantized"
    weights = target / FILE
    if not weights.is_file():
        return f"it has no single {FILE}"
    if weights.stat().st_size > WEIGHTS_AT_MOST:
        return f"its weights are {weights.stat().st_size / 1e9:.0f} GB"
    if config.text_config.get("model_type") not in ("deepseek_v3", "kimi_k2"):
        return f"its text model is {config.text_config.get('model_type')}, not DeepSeek-V3"
    return None


class Reference:
    """transformers' DeepseekV3ForCausalLM on the target's weights, in fp32."""

    def __init__(self, target: Path) -> None:
        import torch

        from k25serve.drafters.tiny.load import load_text_model

        self._model: DeepseekV3ForCausalLM = load_text_model(torch.float32, target)

    def states(self, token_ids: "torch.Tensor") -> "torch.Tensor":
        """What leaves each layer, before any final norm: fp32 [layers, n, H] for ids [n]."""
        import torch

        found: list[torch.Tensor] = []

        def taken(module: torch.nn.Module, given: object, output: "torch.Tensor | tuple[torch.Tensor, ...]") -> None:
            found.append((output[0] if isinstance(output, tuple) else output)[0])

        layers = self._model.model.layers
        handles = [layer.register_forward_hook(taken) for layer in layers]
        try:
            with torch.no_grad():
                self._model(token_ids[None])
        finally:
            for handle in handles:
                handle.remove()
        return torch.stack(found)
