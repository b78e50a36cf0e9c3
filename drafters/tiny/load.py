"""Loads the target's folder into plain torch modules, for equality tests and for measuring without an engine."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, DeepseekV3Config, DeepseekV3ForCausalLM, PreTrainedTokenizerFast

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.tiny.export import PREFIX, stack_experts
from k25serve.drafters.tiny.vision import VisionModel


def load_text_model(dtype: torch.dtype = torch.float32, folder: Path = TARGET) -> DeepseekV3ForCausalLM:
    """The target's language model as transformers' own class, with transformers' own expert code, in eval mode.

    Raises RuntimeError when a tensor is missing or unknown.
    """
    config = DeepseekV3Config(**json.loads((folder / "config.json").read_text())["text_config"])
    model = DeepseekV3ForCausalLM(config)
    tensors = load_file(folder / "model.safetensors")
    text = {k.removeprefix(PREFIX): t for k, t in tensors.items() if k.startswith(PREFIX)}
    model.load_state_dict(stack_experts(text))
    return model.to(dtype).eval()


def load_vision_model(folder: Path = TARGET) -> VisionModel:
    """The target's vision tower and projector, fp32, in eval mode."""
    model = VisionModel()
    tensors = load_file(folder / "model.safetensors")
    model.load_state_dict({k: t.float() for k, t in tensors.items() if not k.startswith(PREFIX)})
    return model.eval()


def load_tokenizer(folder: Path = TARGET) -> PreTrainedTokenizerFast:
    """The target's tokenizer; nothing is fetched."""
    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
