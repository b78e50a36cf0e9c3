"""A batch of whole documents end to end, and which of its positions are worth computing."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

# Scores [base, key] of one piece of a document: 64 heads of them in fp32 are 1 GiB.
PIECE_SCORES = 1 << 22


@dataclass(frozen=True)
class Piece:
    """`bases` bases of one document and the `keys` first keys of it, up to the last base's own.

    after [bases, 1, keys] bool: the keys that come after each base.
    """

    document: int
    bases: int
    keys: int
    after: torch.Tensor


@dataclass(frozen=True)
class Packed:
    """What the drafter sees at position i: the target's states of token i, and token i+1.

    aux [L, 3H]; last [L, H]: the target's state of token i+1, before its final norm; ids [L] int64: token i+1;
    positions [L]; wanted [L] bool: whether the target's word after token i+1 is trained on; bases [N] int64: the
    positions that a draft of at most `steps` tokens starts from and that has such a word.
    lengths: of the documents; pieces: their bases.
    """

    aux: torch.Tensor
    last: torch.Tensor
    ids: torch.Tensor
    positions: torch.Tensor
    wanted: torch.Tensor
    bases: torch.Tensor
    lengths: list[int]
    pieces: tuple[Piece, ...]

    def at(self, step: int) -> torch.Tensor:
        """[N] bool: the bases whose draft has a wanted word at `step`."""
        place = self.bases + step
        inside = place < len(self.wanted)
        return inside & self.wanted[place.clamp(max=len(self.wanted) - 1)]

    def tokens(self, step: int) -> torch.Tensor:
        """[N] int64: what is written `step` tokens after each base's own."""
        return self.ids[(self.bases + step).clamp(max=len(self.ids) - 1)]


def pack(batch: dict[str, Any], steps: int, bases: torch.Tensor | None = None) -> Packed:
    """From what speculators' CollateFn gives (after shift_batch): rows of one, filled up at the end.

    `bases` [L] bool: other bases than those that `wanted` asks for.
    """
    documents = batch["document_ids"][0]
    length = int((documents >= 0).sum())
    documents, wanted = documents[:length], batch["loss_mask"][0, :length].bool()
    if bases is None:
        bases = wanted.clone()
        for step in range(1, steps):
            bases[:-step] |= wanted[step:]
        if not bases.any():
            bases[:1] = True  # nothing to learn here, but every rank has a step to make
    chosen = bases.nonzero()[:, 0]
    lengths = torch.bincount(documents).tolist()
    counts = torch.bincount(documents[chosen], minlength=len(lengths)).tolist()
    starts = [0, *accumulate(lengths[:-1])]
    return Packed(
        batch["hidden_states"][0, :length],
        batch["verifier_last_hidden_states"][0, :length],
        batch["input_ids"][0, :length],
        batch["position_ids"][0, :length],
        wanted,
        chosen,
        lengths,
        tuple(_pieces(starts, lengths, counts, chosen)),
    )


def _pieces(starts: list[int], lengths: list[int], counts: list[int], bases: torch.Tensor) -> list[Piece]:
    found, done = [], 0
    for document, (start, length, count) in enumerate(zip(starts, lengths, counts, strict=True)):
        chunk = max(1, PIECE_SCORES // max(1, length))
        for first in range(done, done + count, chunk):
            own = bases[first : min(first + chunk, done + count)] - start
            keys = int(own[-1]) + 1
            after = torch.arange(keys, device=own.device) > own[:, None]
            found.append(Piece(document, len(own), keys, after[:, None]))
        done += count
    return found
