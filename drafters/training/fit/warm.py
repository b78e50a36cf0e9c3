"""Warm start: the weights of a drafter folder in SGLang's layout, its head's rows by the target's ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from speculators.models.eagle3 import Eagle3DraftModel

from k25serve.drafters.adapters.keys import canonical_names
from k25serve.drafters.check.aux_layers import sglang_layers, stored_ids
from k25serve.drafters.check.layout import LLAMA
from k25serve.drafters.check.rope import rope_of
from k25serve.drafters.checkpoint import Checkpoint, read_ints
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit.options import DraftLayer
from k25serve.drafters.training.fit.verifier import Verifier
from k25serve.drafters.training.fit.vocabulary import DraftVocabulary
from k25serve.drafters.vocab import Form, find_faults, read_d2t

ADAPT = "run `k25serve drafter adapt` on it first"


@dataclass(frozen=True)
class Warmed:
    """kept: draft ids whose row of the head is the drafter's; lent: those it had not, whose row is the target's."""

    kept: int
    lent: int


@torch.no_grad()
def begin_warm(
    drafter: Eagle3DraftModel,
    folder: Path,
    layer: DraftLayer,
    aux_layers: Sequence[int],
    verifier: Verifier,
    vocabulary: DraftVocabulary,
) -> Warmed:
    """Copy fc, the layer and norm by name, and lm_head row by row. aux_layers: physical, as captured.

    Raises TrainingError or CheckpointError where the drafter is another model than `layer` says, was trained on other
    states, or has another width.
    """
    source = Checkpoint(folder)
    _check(source, folder, layer, aux_layers)
    names, _ = canonical_names(LLAMA, source.names)
    state = drafter.state_dict()
    for canonical, name in names.items():
        if canonical in ("lm_head.weight", "embed_tokens.weight", "d2t", "t2d"):
            continue
        own = canonical.replace("midlayer.", "layers.0.")
        if own not in state:
            raise TrainingError(
                f"init.drafter {folder}: has {name!r}, which this training has not; take another drafter"
            )
        found = _read(source, name)
        if found.shape != state[own].shape:
            raise TrainingError(
                f"init.drafter {folder}: {name!r} is {list(found.shape)}, draft_layer makes it "
                f"{list(state[own].shape)}; write the drafter's own sizes into draft_layer"
            )
        state[own].copy_(found)
    return _begin_head(drafter, source, names, verifier, vocabulary)


def _begin_head(
    drafter: Eagle3DraftModel,
    source: Checkpoint,
    names: dict[str, str],
    verifier: Verifier,
    vocabulary: DraftVocabulary,
) -> Warmed:
    head = drafter.lm_head.weight
    head.copy_(verifier.head)
    if "lm_head.weight" not in names:
        return Warmed(0, len(head))
    rows = _read(source, names["lm_head.weight"])
    hot_ids = _hot_ids(source, names, verifier.vocab_size)
    if rows.shape != (len(hot_ids), verifier.hidden_size):
        raise TrainingError(
            f"init.drafter {source.folder}: lm_head is {list(rows.shape)}, {len(hot_ids)} draft ids of width "
            f"{verifier.hidden_size} belong there; {ADAPT}"
        )
    place = torch.full((verifier.vocab_size,), -1)
    place[hot_ids] = torch.arange(len(hot_ids))
    wanted = place[vocabulary.hot_ids]
    there = wanted >= 0
    head[there] = rows[wanted[there]].to(head.dtype)
    return Warmed(int(there.sum()), int((~there).sum()))


def _hot_ids(source: Checkpoint, names: dict[str, str], vocab_size: int) -> torch.Tensor:
    if "d2t" not in names:
        return torch.arange(vocab_size)
    reading = read_d2t(read_ints(source.tensor(names["d2t"])), vocab_size)
    if reading.form is Form.ABSOLUTE or len(find_faults(reading.hot_ids, vocab_size)):
        raise TrainingError(
            f"init.drafter {source.folder}: d2t does not hold offsets into {vocab_size} tokens; {ADAPT}"
        )
    return torch.tensor(reading.hot_ids)


def _check(source: Checkpoint, folder: Path, layer: DraftLayer, aux_layers: Sequence[int]) -> None:
    architectures = source.config.get("architectures")
    if architectures != [LLAMA]:
        raise TrainingError(
            f"init.drafter {folder}: architectures is {architectures!r}, {LLAMA} belongs there; {ADAPT}"
        )
    ids, _ = stored_ids(source.config)
    physical = [state - 1 for state in sglang_layers(ids)] if isinstance(ids, list) else None
    if physical != list(aux_layers):
        raise TrainingError(
            f"init.drafter {folder}: trained on what leaves layers {physical}, captured is what leaves "
            f"{list(aux_layers)}; capture the drafter's layers, or begin from scratch"
        )
    rope = rope_of(source.config)
    if rope["theta"] != layer.rope_theta or rope["type"] not in (None, "default"):
        raise TrainingError(
            f"init.drafter {folder}: rope_theta {rope['theta']}, type {rope['type']}; draft_layer has "
            f"{layer.rope_theta} without scaling: write the drafter's own into draft_layer, or begin from scratch"
        )


def _read(source: Checkpoint, name: str) -> torch.Tensor:
    with safe_open(source.tensor(name).file, "pt") as file:
        tensor: torch.Tensor = file.get_tensor(name)
        return tensor
