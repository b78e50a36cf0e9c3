"""How much a capture writes, and whether there is room for it."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import Meaning, name_of
from k25serve.drafters.training.capture.shards import Shard

SPARE = 1 << 28  # left free for everything else that writes there


def size_text(count: int) -> str:
    """Bytes as people read them: 57.3 kB, 11.5 TB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def bytes_there(out: Path, shards: Iterable[Shard]) -> int:
    """What already lies there of the shards."""
    files = (shard.folder(out) / name_of(row) for shard in shards for row in shard.rows)
    return sum(file.stat().st_size for file in files if file.is_file())


def check_room(out: Path, shards: Iterable[Shard], meaning: Meaning, budget: int | None) -> int:
    """Bytes that the shards take when they are all there. Raises TrainingError where they do not fit.

    budget: the most bytes that they may take; None: what the disk has free.
    """
    wanted = list(shards)
    total = sum(shard.nbytes(meaning) for shard in wanted)
    token = meaning.nbytes(1) - meaning.nbytes(0)
    tokens = sum(shard.tokens for shard in wanted)
    say = f"{size_text(total)} for {tokens:,} tokens of {token:,} B"
    if budget is not None and total > budget:
        raise TrainingError(
            f"capture takes {say}, the budget is {size_text(budget)}; raise --disk-budget, or capture fewer shards at "
            "a time with --shards"
        )
    out.mkdir(parents=True, exist_ok=True)
    free, more = shutil.disk_usage(out).free, total - bytes_there(out, wanted)
    if more + SPARE > free:
        raise TrainingError(
            f"capture takes {say}, {size_text(more)} more than is there, and {out} has {size_text(free)} free; "
            "give --out on a larger disk, or fewer shards with --shards"
        )
    return total
