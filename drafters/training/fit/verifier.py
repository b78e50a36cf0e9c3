"""What the drafter takes from the target: embedding, head and final norm, single tensors found by header.

speculators reads the whole config by AutoConfig, which knows no kimi_k25; nothing but these tensors is needed.
"""

from dataclasses import dataclass

import torch

from k25serve.drafters.checkpoint import Target, Tensor, read_chunks
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.target import PREFIXES

DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
FINAL_NORM = tuple(f"{prefix}norm.weight" for prefix in PREFIXES)


@dataclass(frozen=True)
class Verifier:
    """embedding [vocab, H], head [draft_vocab, H] and norm [H] as stored; eps of the norm; its number of layers."""

    embedding: torch.Tensor
    head: torch.Tensor
    norm: torch.Tensor
    eps: float
    layers: int
    architecture: str

    @property
    def vocab_size(self) -> int:
        return self.embedding.shape[0]

    @property
    def hidden_size(self) -> int:
        return self.embedding.shape[1]


def read_verifier(target: Target, hot_ids: torch.Tensor) -> Verifier:
    """hot_ids [draft_vocab] int64: the rows of the head to keep. Raises CheckpointError or TrainingError."""
    norm = target.checkpoint.first_of(FINAL_NORM)
    if norm is None:
        raise TrainingError(f"{target.folder}: has none of {', '.join(FINAL_NORM)}; point --target at the whole target")
    eps = target.text_config.get("rms_norm_eps", 1e-6)
    if not isinstance(eps, float) or not 0 < eps < 1:
        raise TrainingError(f"{target.folder}/config.json: rms_norm_eps is {eps!r}; write the target's own")
    head = _read(target.head)
    return Verifier(
        _read(target.embedding),
        head[hot_ids].clone(),
        _read(norm),
        eps,
        target.size("num_hidden_layers"),
        target.architecture,
    )


def _read(tensor: Tensor) -> torch.Tensor:
    if tensor.dtype not in DTYPES:
        raise TrainingError(
            f"{tensor.file}: {tensor.name!r} is {tensor.dtype}, one of {', '.join(DTYPES)} belongs there; "
            "take a target whose embedding, head and norm are not quantized"
        )
    data = bytearray(tensor.nbytes)
    place = 0
    for chunk in read_chunks(tensor):
        data[place : place + len(chunk)] = chunk
        place += len(chunk)
    return torch.frombuffer(data, dtype=DTYPES[tensor.dtype]).reshape(tensor.shape)
