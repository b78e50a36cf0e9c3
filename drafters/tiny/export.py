"""Writes the target as the folder that SGLang loads."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny import special_tokens as st
from k25serve.drafters.tiny.target import CONTEXT_LENGTH, TEXT_CONFIG
from k25serve.drafters.tiny.tokenizer import save_tokenizer
from k25serve.drafters.tiny.vision import GRID, MERGE, PATCH_SIZE, VISION_CONFIG, VisionModel

PREFIX = "language_model."
PROCESSOR_FILES = ("kimi_k25_processor.py", "kimi_k25_vision_processing.py")


def export_target(model: DeepseekV3ForCausalLM, vision: VisionModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the target folder but provenance.json: bf16 weights, the routers' biases in fp32 (as transformers)."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {PREFIX + name: t for name, t in split_experts(model.state_dict()).items()} | dict(vision.state_dict())
    _save(tensors, folder / "model.safetensors")
    save_tokenizer(tokenizer, folder, CONTEXT_LENGTH)
    ids = special_ids(tokenizer)
    _write(folder / "config.json", target_config(ids))
    ends = [ids[st.IM_END], ids[st.EOS]]
    _write(
        folder / "generation_config.json",
        {"bos_token_id": ids[st.BOS], "eos_token_id": ends, "pad_token_id": ids[st.PAD]},
    )
    _write(folder / "preprocessor_config.json", processor_config())
    for name in PROCESSOR_FILES:
        shutil.copyfile(Path(__file__).with_name(name), folder / name)


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Token to id. Raises ValueError when the tokenizer lacks one."""
    ids = {token: tokenizer.token_to_id(token) for token in st.ALL}
    missing = [token for token, found in ids.items() if found is None]
    if missing:
        raise ValueError(f"the tokenizer lacks {missing}: train it with train_tokenizer")
    return {token: found for token, found in ids.items() if found is not None}


def target_config(ids: dict[str, int]) -> dict[str, Any]:
    """config.json of the wrapper model; ids: the special tokens' ids."""
    tokens = {"bos_token_id": ids[st.BOS], "eos_token_id": ids[st.EOS], "pad_token_id": ids[st.PAD]}
    return {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "torch_dtype": "bfloat16",
        "media_placeholder_token_id": ids[st.MEDIA_PAD],
        "tie_word_embeddings": False,
        **tokens,
        "text_config": TEXT_CONFIG | tokens | {"torch_dtype": "bfloat16"},
        "vision_config": VISION_CONFIG,
    }


def processor_config() -> dict[str, Any]:
    """preprocessor_config.json: where the processor code is and what the pixels become."""
    return {
        "auto_map": {
            "AutoProcessor": "kimi_k25_processor.KimiK25Processor",
            "AutoImageProcessor": "kimi_k25_vision_processing.KimiK25VisionProcessor",
        },
        "processor_class": "KimiK25Processor",
        "image_processor_type": "KimiK25VisionProcessor",
        "media_proc_cfg": {
            "patch_size": PATCH_SIZE,
            "merge_kernel_size": MERGE,
            "in_patch_limit": GRID * GRID,
            "patch_limit_on_one_side": GRID,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        },
    }


def split_experts(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """transformers keeps a layer's experts stacked; checkpoints name each of them. Inverse of `stack_experts`."""
    out: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        if name.endswith(".experts.gate_up_proj"):
            base = name.removesuffix("gate_up_proj")
            for i, pair in enumerate(tensor):
                out[f"{base}{i}.gate_proj.weight"], out[f"{base}{i}.up_proj.weight"] = pair.chunk(2)
        elif name.endswith(".experts.down_proj"):
            base = name.removesuffix("down_proj")
            out.update({f"{base}{i}.down_proj.weight": t for i, t in enumerate(tensor)})
        else:
            out[name] = tensor
    return out


def stack_experts(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Checkpoint names to transformers' stacked tensors."""
    out: dict[str, torch.Tensor] = {}
    experts: dict[str, dict[int, dict[str, torch.Tensor]]] = {}
    for name, tensor in state.items():
        base, found, rest = name.partition(".experts.")
        if not found:
            out[name] = tensor
            continue
        index, kind, _ = rest.split(".")
        experts.setdefault(base, {}).setdefault(int(index), {})[kind] = tensor
    for base, by_index in experts.items():
        ordered = [by_index[i] for i in range(len(by_index))]
        out[f"{base}.experts.gate_up_proj"] = torch.stack([torch.cat([e["gate_proj"], e["up_proj"]]) for e in ordered])
        out[f"{base}.experts.down_proj"] = torch.stack([e["down_proj"] for e in ordered])
    return out


def _save(tensors: dict[str, torch.Tensor], path: Path) -> None:
    save_file({k: _stored(k, t) for k, t in sorted(tensors.items())}, path, {"format": "pt"})
    path.chmod(0o644)  # safetensors writes for the owner alone


def _stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu().contiguous().clone()
    return tensor if not tensor.is_floating_point() or "e_score_correction_bias" in name else tensor.bfloat16()


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
