"""The packaged models with Kimi-K2.5's 64 heads, so that any number of ranks divides them: the same function.

Each of the packaged target's 4 heads is there 16 times, a sixteenth of its output each (exact: a power of two); the
drafter's 4 twice. So greedy output and acceptance are the packaged models', and a rank of TP=N holds 64/N heads.
"""

import json
import shutil
from pathlib import Path

from k25serve.drafters.tiny import DRAFTER, TARGET

HEADS, DRAFTER_HEADS = 64, 8
WEIGHTS = "model.safetensors"


def write_wide(folder: Path) -> tuple[Path, Path]:
    """Target and drafter under `folder`, which must not exist. Needs torch."""
    target, drafter = folder / "target", folder / "drafter"
    folder.mkdir(parents=True)
    for source, copy in ((TARGET, target), (DRAFTER, drafter)):
        shutil.copytree(source, copy)
    _widen_target(target)
    _widen_drafter(drafter)
    return target, drafter


def _widen_target(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    config = json.loads((folder / "config.json").read_text())
    text = config["text_config"]
    heads = text["num_attention_heads"]
    times = HEADS // heads
    tensors = load_file(folder / WEIGHTS)
    for name, tensor in tensors.items():
        rows, columns = tensor.shape if tensor.dim() == 2 else (0, 0)
        if name.endswith((".self_attn.q_b_proj.weight", ".self_attn.kv_b_proj.weight")):
            tensors[name] = tensor.repeat(times, 1)
        elif "language_model" in name and name.endswith(".self_attn.o_proj.weight"):
            parts = tensor.view(rows, heads, columns // heads).repeat(1, times, 1) / times
            tensors[name] = parts.reshape(rows, -1).contiguous()
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    text |= {"num_attention_heads": HEADS, "num_key_value_heads": HEADS}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def _widen_drafter(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    config = json.loads((folder / "config.json").read_text())
    heads = config["num_attention_heads"]
    times = DRAFTER_HEADS // heads
    tensors = load_file(folder / WEIGHTS)
    query, output = (f"midlayer.self_attn.{name}.weight" for name in ("q_proj", "o_proj"))
    # Beside each other, so that a head stays with its own keys.
    rows, columns = tensors[query].shape
    tensors[query] = tensors[query].view(heads, -1, columns).repeat_interleave(times, 0).reshape(-1, columns)
    rows, columns = tensors[output].shape
    parts = tensors[output].view(rows, heads, -1).repeat_interleave(times, 1) / times
    tensors[output] = parts.reshape(rows, -1)
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": DRAFTER_HEADS}, indent=2))
