"""A drafter's reduced vocabulary: the forms of d2t, the choice of ids, the tokens that it must hold. Pure."""

from k25serve.drafters.vocab.build import RANK, choose_ids, read_counts, swap_ids
from k25serve.drafters.vocab.forms import Faults, Form, Reading, find_faults, read_d2t, to_offsets, to_t2d
from k25serve.drafters.vocab.special import Wanted, wanted_tokens

__all__ = [
    "RANK",
    "Faults",
    "Form",
    "Reading",
    "Wanted",
    "choose_ids",
    "find_faults",
    "read_counts",
    "read_d2t",
    "swap_ids",
    "to_offsets",
    "to_t2d",
    "wanted_tokens",
]
