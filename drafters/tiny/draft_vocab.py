"""The drafter's reduced vocabulary and its two maps, in SGLang's form."""

from collections.abc import Iterable, Sequence

import torch


def count_tokens(rows: Iterable[tuple[Sequence[int], Sequence[bool]]], vocab_size: int) -> torch.Tensor:
    """How often each id [vocab_size] is a token that counts in the loss."""
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for ids, mask in rows:
        counts += torch.bincount(torch.tensor(ids)[torch.tensor(mask)], minlength=vocab_size)
    return counts


def draft_maps(counts: torch.Tensor, always: Iterable[int], draft_vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pick the most frequent ids, ties to the lower id, with `always` kept; returns d2t (offsets) and t2d (bool).

    Raises ValueError when `always` alone does not fit.
    """
    kept = set(always)
    if len(kept) > draft_vocab_size:
        raise ValueError(
            f"draft_vocab_size {draft_vocab_size} is below the {len(kept)} ids that are always kept: raise it"
        )
    for token in sorted(range(len(counts)), key=lambda i: (-int(counts[i]), i)):
        if len(kept) == draft_vocab_size:
            break
        kept.add(token)
    hot = torch.tensor(sorted(kept))
    t2d = torch.zeros(len(counts), dtype=torch.bool)
    t2d[hot] = True
    return hot - torch.arange(len(hot)), t2d
