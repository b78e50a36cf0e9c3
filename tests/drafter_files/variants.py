"""A good drafter rewritten: in the K2 checkpoint's form, or broken so that it loads, answers and accepts nothing.

Each takes a drafter of this project's form (one file, `midlayer.*`, offsets, explicit aux ids) and writes another.
"""

import json
import random
import struct
from pathlib import Path
from typing import Any

from drafter_files.files import Array, int64, read_file, write_folder

KEY = "eagle_aux_hidden_state_layer_ids"


def read_drafter(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """config.json and all tensors."""
    return json.loads((folder / "config.json").read_text()), read_file(folder / "model.safetensors")


def as_k2_checkpoint(source: Path, out: Path, context_length: int) -> Path:
    """The same drafter as model.layers.0.*, target ids in d2t, ids of layers that states leave, nothing explicit.

    context_length: what it claims to reach, less than the target's.
    """
    config, arrays = read_drafter(source)
    for key in ("head_dim", "draft_vocab_size"):
        del config[key]
    config["max_position_embeddings"] = context_length
    ids = config["eagle_config"][KEY]
    config["eagle_config"] = {**config["eagle_config"], KEY: [layer - 1 for layer in ids]}
    renamed = {_k2_name(name): array for name, array in arrays.items()}
    return write_folder(out, config, renamed | {"d2t": int64(*hot_ids(arrays))})


def with_random_head(source: Path, out: Path, seed: int = 0) -> Path:
    """lm_head drawn anew, as where a loader leaves it uninitialised."""
    config, arrays = read_drafter(source)
    head, numbers = arrays["lm_head.weight"], random.Random(seed)
    data = b"".join(struct.pack("<f", numbers.gauss(0, 0.02))[2:] for _ in range(head.nbytes // 2))
    return write_folder(out, config, arrays | {"lm_head.weight": Array("BF16", head.shape, data)})


def with_aux_layers_off_by_one(source: Path, out: Path) -> Path:
    """Each aux layer one too early: states that the drafter never saw. The first id must be above 2."""
    config, arrays = read_drafter(source)
    ids = config["eagle_config"][KEY]
    # [1, ...] would be shifted back by SGLang; one later would leave the target where the last layer is captured.
    shifted = [layer - 1 for layer in ids] if ids[0] > 2 else [0, *(layer - 1 for layer in ids[1:])]
    config["eagle_config"] = {**config["eagle_config"], KEY: shifted}
    return write_folder(out, config, arrays)


def with_shuffled_d2t(source: Path, out: Path, seed: int = 0) -> Path:
    """Draft ids mapped to each other's tokens; t2d stays true."""
    config, arrays = read_drafter(source)
    ids = list(hot_ids(arrays))
    random.Random(seed).shuffle(ids)
    return write_folder(out, config, arrays | {"d2t": int64(*(token - place for place, token in enumerate(ids)))})


def hot_ids(arrays: dict[str, Array]) -> tuple[int, ...]:
    """The target id of each draft id, from d2t's offsets."""
    data = arrays["d2t"].data or b""
    offsets = struct.unpack(f"<{len(data) // 8}q", data)
    return tuple(place + offset for place, offset in enumerate(offsets))


def _k2_name(name: str) -> str:
    if name in ("lm_head.weight", "d2t", "t2d"):
        return name
    return f"model.{name.replace('midlayer.', 'layers.0.')}"
