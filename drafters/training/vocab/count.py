"""How often each target id is a supervised token, by class."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import TrainingError

ROWS_AT_ONCE = 1000


def count_tokens(split: Path, vocab_size: int, progressed: Callable[[int], None]) -> dict[str, Any]:
    """numpy int64 [vocab_size] by label. `progressed` is told how many rows are done.

    Raises TrainingError where `split` is no data set, or holds an id outside the vocabulary.
    """
    import datasets
    import numpy as np

    try:
        rows = datasets.load_from_disk(str(split)).with_format("numpy")
    except (FileNotFoundError, ValueError):
        raise TrainingError(f"{split}: no data set; run `k25serve drafter train data` first") from None
    counts: dict[str, Any] = {}
    for batch in rows.iter(batch_size=ROWS_AT_ONCE):
        for label, ids, mask in zip(batch["label"], batch["input_ids"], batch["loss_mask"], strict=True):
            supervised = ids[mask.astype(bool)]
            found = np.bincount(supervised, minlength=vocab_size)
            if len(found) > vocab_size:
                raise TrainingError(
                    f"{split}: id {len(found) - 1} is outside the target's vocabulary of {vocab_size}; "
                    "prepare the data with this target"
                )
            counts[str(label)] = counts.get(str(label), 0) + found
        progressed(len(batch["label"]))
    return dict(sorted(counts.items()))
