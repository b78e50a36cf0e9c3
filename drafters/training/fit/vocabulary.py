"""The draft vocabulary that the vocab step wrote."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from k25serve.drafters.checkpoint.errors import TrainingError


@dataclass(frozen=True)
class DraftVocabulary:
    """d2t [draft_vocab] int64: target id = draft id + d2t[draft id]; t2d [vocab] bool: the ids with a draft id."""

    d2t: torch.Tensor
    t2d: torch.Tensor

    @property
    def hot_ids(self) -> torch.Tensor:
        """[draft_vocab] the target id of each draft id, ascending."""
        return self.d2t + torch.arange(len(self.d2t))

    @property
    def reduced(self) -> bool:
        return len(self.d2t) != len(self.t2d)


def read_vocabulary(path: Path, vocab_size: int) -> DraftVocabulary:
    """vocab_size: the target's. Raises TrainingError where the file is missing, damaged or for another target."""
    remedy = "run `k25serve drafter train vocab` again"
    try:
        tensors = load_file(path)
    except (FileNotFoundError, SafetensorError) as error:
        raise TrainingError(f"{path}: cannot be read ({error}); {remedy}") from None
    d2t, t2d = tensors.get("d2t"), tensors.get("t2d")
    if d2t is None or t2d is None or d2t.dtype != torch.int64 or t2d.dtype != torch.bool:
        raise TrainingError(f"{path}: holds {sorted(tensors)}, d2t (int64) and t2d (bool) belong there; {remedy}")
    if t2d.shape != (vocab_size,):
        raise TrainingError(f"{path}: t2d has {list(t2d.shape)} entries, the target {vocab_size} tokens; {remedy}")
    found = DraftVocabulary(d2t, t2d)
    if not torch.equal(found.hot_ids, t2d.nonzero()[:, 0]):
        raise TrainingError(f"{path}: d2t and t2d mark different ids; {remedy}")
    return found
