"""The last state against the engine's own words: norm and head give the log-probabilities that the engine returns.

Works at every size: two tensors of the target are read, not the model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.folder import read_bytes
from k25serve.drafters.checkpoint.header import Tensor
from k25serve.drafters.checkpoint.target import PREFIXES, Target

if TYPE_CHECKING:
    import torch

ROWS = 256  # tokens at a time: 256 rows of 163,840 fp32 logits are 168 MB
DIFFERENCE_AT_MOST = 0.05  # nats, mean over tokens; bf16 states and logits
AGREEMENT_AT_LEAST = 0.95
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True)
class HeadMatch:
    """tokens: compared. difference: mean |log-probability here - the engine's| of the prompt's own next tokens, nats.

    agreement: share of places where the most likely token is the same.
    """

    tokens: int
    difference: float
    agreement: float

    @property
    def fault(self) -> str | None:
        """What is wrong; None where nothing is."""
        if self.difference > DIFFERENCE_AT_MOST or self.agreement < AGREEMENT_AT_LEAST:
            return (
                f"the last state through norm and head differs from the engine by {self.difference:.3f} nats, with the "
                f"same top token at {self.agreement:.1%} of places; expected {DIFFERENCE_AT_MOST} at most and "
                f"{AGREEMENT_AT_LEAST:.0%} at least"
            )
        return None


class Head:
    """The target's final norm and output head. Raises CheckpointError, TrainingError."""

    def __init__(self, target: Path) -> None:
        found = Target(target)
        norm = found.checkpoint.first_of(tuple(f"{prefix}norm.weight" for prefix in PREFIXES))
        if norm is None:
            raise TrainingError(f"--target {target}: has no final norm; point at the whole target")
        self._norm, self._head = _tensor(norm), _tensor(found.head)
        self._eps = float(found.text_config.get("rms_norm_eps", 1e-6))

    def log_probs(self, last: "torch.Tensor") -> "Iterator[torch.Tensor]":
        """Pieces of fp32 log-probabilities [rows, vocab], in the order of last [n, H]."""
        import torch

        weight = self._norm.float()
        for piece in torch.split(last, ROWS):
            states = piece.float()
            normed = states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + self._eps) * weight
            # In the head's own dtype where that is all that memory holds.
            logits = normed.to(self._head.dtype) @ self._head.T
            yield logits.float().log_softmax(-1)


def match_head(
    head: Head, last: "Sequence[torch.Tensor]", ids: "Sequence[torch.Tensor]", meta: Sequence[dict[str, Any]]
) -> HeadMatch:
    """Compare samples: last states [n, H], ids [n], and the engine's `meta_info` of the same prompts."""
    import torch

    differences, same = [], 0
    for states, tokens, told in zip(last, ids, meta, strict=True):
        # Entry 0 has nothing before it; entry i is of token i, given those before.
        theirs = torch.tensor([float(entry[0]) for entry in told["input_token_logprobs"][1:]])
        tops = torch.tensor([int(entry[0][1]) for entry in told["input_top_logprobs"][1:]])
        if not len(theirs) == len(tops) == len(tokens) - 1:
            raise TrainingError(f"the engine gave {len(theirs)} log-probabilities for {len(tokens)} tokens")
        pieces = list(head.log_probs(states[:-1]))
        if not pieces:
            continue
        ours = torch.cat(
            [p.gather(1, t[:, None])[:, 0] for p, t in zip(pieces, torch.split(tokens[1:], ROWS), strict=True)]
        )
        best = torch.cat([piece.argmax(-1) for piece in pieces])
        differences.append((ours - theirs).abs())
        same += int((best == tops).sum())
    every = torch.cat(differences) if differences else torch.zeros(0)
    if not len(every):
        raise TrainingError("no sample has two tokens, so nothing can be compared; capture longer ones")
    return HeadMatch(len(every), float(every.mean()), same / len(every))


def _tensor(found: Tensor) -> "torch.Tensor":
    import torch

    if found.dtype not in DTYPES:
        raise TrainingError(f"{found.file}: {found.name} is {found.dtype}; the check reads {', '.join(DTYPES)}")
    dtype = getattr(torch, DTYPES[found.dtype])
    return torch.frombuffer(bytearray(read_bytes(found)), dtype=dtype).view(found.shape)
