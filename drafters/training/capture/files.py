"""State files: as the engine writes them, and as training reads them."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k25serve.drafters.training.capture.rows import Row

if TYPE_CHECKING:
    import torch

ELEMENT_BYTES = 2  # bf16
HEADER_BYTES = 640  # of a safetensors file here, rounded up
HEADER = "states"
"""The one entry of a file's header: JSON. Several would be written in any order, so the bytes would differ."""
TARGET = "target_config_sha256"
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Meaning:
    """What the states of a file are: outputs of `layers`, then of `last_layer`; all numbers count from 0.

    hidden_size: of each state.
    """

    layers: tuple[int, ...]
    last_layer: int
    hidden_size: int

    @property
    def states(self) -> int:
        """States of a token."""
        return len(self.layers) + 1

    def nbytes(self, tokens: int) -> int:
        """Size of the file of a sample, nearly: the states, an int64 id and a bool a token."""
        return tokens * (self.states * self.hidden_size * ELEMENT_BYTES + 9) + HEADER_BYTES


@dataclass(frozen=True)
class Kept:
    """A file under `hidden/`."""

    sha256: str
    size: int


def name_of(index: int) -> str:
    """File of row `index`."""
    return f"hs_{index}.safetensors"


def read_states(path: Path, row: Row, meaning: Meaning, target: str | None) -> "dict[str, torch.Tensor] | str":
    """The tensors of a state file of `row`; or, as text, what is wrong with it.

    target: hash of the target's config that a kept file must name, which has the loss mask too; None: a file as the
    engine writes it.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            said, tensors = _said(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except FileNotFoundError:
        return "it is not there"
    except (SafetensorError, OSError) as error:
        return f"it cannot be read ({error})"
    expected = {"token_ids", "hidden_states"} | (set() if target is None else {"loss_mask"})
    if set(tensors) != expected:
        return f"it holds {', '.join(sorted(tensors))}, expected {', '.join(sorted(expected))}"
    theirs, mine = (said.get("layers"), said.get("last_layer")), (list(meaning.layers), meaning.last_layer)
    if theirs != mine:
        return f"its states are of layers {theirs[0]} and {theirs[1]}, expected {mine[0]} and {mine[1]}"
    if target is not None and said.get(TARGET) != target:
        return f"its target's config has the hash {said.get(TARGET)}, expected {target}"
    if not torch.equal(tensors["token_ids"], torch.tensor(row.input_ids)):
        return "its token ids are not those that were sent"
    states = tensors["hidden_states"]
    shape = (len(row.input_ids), meaning.states, meaning.hidden_size)
    if states.shape != shape or states.dtype != torch.bfloat16:
        return f"its states are {states.dtype} {list(states.shape)}, expected torch.bfloat16 {list(shape)}"
    if not bool(torch.isfinite(states).all()):
        return "it has states that are no numbers"
    if target is not None and not torch.equal(tensors["loss_mask"], torch.tensor(row.loss_mask, dtype=torch.bool)):
        return "its loss mask is not the data's"
    return tensors


def keep(tensors: "Mapping[str, torch.Tensor]", row: Row, meaning: Meaning, target: str, folder: Path) -> Kept:
    """Write the states with the row's loss mask to its file in `folder`, whole and on the disk, or not at all."""
    import torch
    from safetensors.torch import save

    mask = torch.tensor(row.loss_mask, dtype=torch.bool)
    header = json.dumps({"layers": list(meaning.layers), "last_layer": meaning.last_layer, TARGET: target})
    data = save({**tensors, "loss_mask": mask}, {HEADER: header})
    write_whole(folder / name_of(row.index), data)
    return Kept(hashlib.sha256(data).hexdigest(), len(data))


def write_whole(path: Path, data: bytes) -> None:
    """Replace `path` in one step, once the bytes are on the disk."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def hash_of(path: Path) -> Kept | None:
    """A file's hash and size, read piece by piece; None where there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
            return Kept(digest.hexdigest(), file.tell())
    except FileNotFoundError:
        return None


def _said(header: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        said = json.loads((header or {}).get(HEADER, "{}"))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
