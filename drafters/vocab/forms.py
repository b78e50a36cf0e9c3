"""d2t, a drafter's map from its own ids to the target's, in the two forms that exist. Pure.

offset     target id = draft id + d2t[draft id]: what SGLang, vLLM, SpecForge and speculators read
absolute   target id = d2t[draft id]: read as offsets, every id is wrong and nothing is accepted
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    OFFSET = "offset"
    ABSOLUTE = "absolute"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True)
class Reading:
    """d2t understood: its form and `hot_ids` [draft_vocab], the target id of each draft id.

    Ambiguous: both forms give distinct ids of the vocabulary, and no t2d says which; `hot_ids` are the offset form's.
    """

    form: Form
    hot_ids: tuple[int, ...]


@dataclass(frozen=True)
class Faults:
    """What is wrong with a list of target ids: positions of ids that lie outside, or repeat an earlier one."""

    outside: tuple[int, ...]
    repeated: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.outside) + len(self.repeated)


def read_d2t(d2t: Sequence[int], vocab_size: int, hot: bytes | None = None) -> Reading:
    """The form in which `d2t` makes sense; `hot` is t2d's bytes [vocab], which decides where both do.

    Where neither form is clean, the one with fewer faults, so that the faults can be told.
    """
    offset = tuple(position + value for position, value in enumerate(d2t))
    absolute = tuple(d2t)
    by_form = {Form.OFFSET: offset, Form.ABSOLUTE: absolute}
    faults = {form: len(find_faults(ids, vocab_size)) for form, ids in by_form.items()}
    if faults[Form.OFFSET] == faults[Form.ABSOLUTE] and hot is not None:
        faults = {form: _not_hot(ids, hot) for form, ids in by_form.items()}
    if faults[Form.OFFSET] == faults[Form.ABSOLUTE]:
        return Reading(Form.AMBIGUOUS if faults[Form.OFFSET] == 0 else Form.OFFSET, offset)
    best = min(by_form, key=lambda form: faults[form])
    return Reading(best, by_form[best])


def find_faults(hot_ids: Sequence[int], vocab_size: int) -> Faults:
    """Positions whose target id is outside [0, vocab_size), and those that repeat an id."""
    outside = tuple(position for position, token in enumerate(hot_ids) if not 0 <= token < vocab_size)
    seen: set[int] = set()
    repeated = []
    for position, token in enumerate(hot_ids):
        if token in seen:
            repeated.append(position)
        seen.add(token)
    return Faults(outside, tuple(repeated))


def to_offsets(hot_ids: Sequence[int]) -> list[int]:
    """The offset form of `hot_ids`."""
    return [token - position for position, token in enumerate(hot_ids)]


def to_t2d(hot_ids: Sequence[int], vocab_size: int) -> bytes:
    """t2d [vocab_size], one byte an id: 1 where the target id has a draft id."""
    hot = bytearray(vocab_size)
    for token in hot_ids:
        hot[token] = 1
    return bytes(hot)


def _not_hot(ids: Sequence[int], hot: bytes) -> int:
    return sum(not (0 <= token < len(hot) and hot[token]) for token in ids)
