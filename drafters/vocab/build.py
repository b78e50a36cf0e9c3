"""Which target ids a drafter's reduced vocabulary holds. Pure: the same counts give the same ids."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from k25serve.drafters.checkpoint import AdaptError

RANK = "rank"


def choose_ids(counts: Mapping[int, int], draft_vocab_size: int, vocab_size: int, always: Iterable[int]) -> list[int]:
    """`draft_vocab_size` ids, ascending: `always`, then the most frequent, ties and unseen ids from the lowest up.

    Raises AdaptError where `always` does not fit or an id is none of the target's.
    """
    kept = set(always)
    strange = sorted(token for token in kept | set(counts) if not 0 <= token < vocab_size)
    if strange:
        raise AdaptError(f"counts: id {strange[0]} is outside the target's vocabulary of {vocab_size}; count again")
    if not len(kept) <= draft_vocab_size <= vocab_size:
        raise AdaptError(
            f"draft_vocab_size {draft_vocab_size} must lie between the {len(kept)} ids that are always kept "
            f"and the target's {vocab_size}"
        )
    for token in sorted(range(vocab_size), key=lambda token: (-counts.get(token, 0), token)):
        if len(kept) == draft_vocab_size:
            break
        kept.add(token)
    return sorted(kept)


def swap_ids(hot_ids: Iterable[int], wanted: Iterable[int], counts: Mapping[int, int]) -> dict[int, int]:
    """Which held id leaves for which missing one of `wanted`: the least frequent leave, of equals the highest id.

    Ids in `wanted` never leave. Raises AdaptError where there are fewer others than missing ids.
    """
    held, keep = set(hot_ids), list(dict.fromkeys(wanted))
    missing = [token for token in keep if token not in held]
    leaving = sorted(held - set(keep), key=lambda token: (counts.get(token, 0), -token))
    if len(leaving) < len(missing):
        raise AdaptError(
            f"draft_vocab_size {len(held)} has no room for {len(missing)} missing tokens; use a drafter with more"
        )
    return dict(zip(leaving, missing, strict=False))


def read_counts(source: str, vocab_size: int) -> dict[int, int]:
    """Counts by target id: from a JSON file (an object of id: count, or a list [vocab]), or `rank`.

    `rank` takes a token's id for its rank: byte-pair merges are numbered by frequency, so high ids are rare. A guess,
    for want of counts. Raises AdaptError where the file is neither.
    """
    if source == RANK:
        return {token: vocab_size - token for token in range(vocab_size)}
    path = Path(source)
    try:
        value = json.loads(path.read_bytes())
        pairs = enumerate(value) if isinstance(value, list) else value.items()
        counts = {int(token): int(count) for token, count in pairs}
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise AdaptError(
            f"--counts {source}: no counts can be read ({error}); give a JSON object of id: count, or {RANK}"
        ) from None
    strange = [token for token in counts if not 0 <= token < vocab_size]
    if strange:
        raise AdaptError(
            f"--counts {source}: id {strange[0]} is outside the target's vocabulary of {vocab_size}; "
            "count with the target's own tokenizer"
        )
    return counts
