"""final/: the trained drafter as speculators' checkpoint."""

import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from speculators.models.eagle3 import Eagle3DraftModel

from k25serve.drafters.adapters.write import write_json

FINAL = "final"


def write_final(drafter: Eagle3DraftModel, folder: Path) -> None:
    """config.json and model.safetensors (bf16), complete or not there; what was there before is replaced.

    The target's own tensors are left out: speculators reads them from the target, and so does every engine.
    """
    lent = ("embed_tokens.", "verifier_")
    weights = {
        name: tensor.detach().to("cpu", torch.bfloat16 if tensor.is_floating_point() else tensor.dtype).contiguous()
        for name, tensor in drafter.state_dict().items()
        if not name.startswith(lent)
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        config = drafter.config.to_dict() | {"architectures": ["Eagle3DraftModel"], "dtype": "bfloat16"}
        write_json(unfinished / "config.json", config)
        save_file(weights, unfinished / "model.safetensors", {"format": "pt"})
        unfinished.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.replace(folder)
    finally:
        if unfinished.exists():
            shutil.rmtree(unfinished)
