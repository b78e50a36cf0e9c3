"""Reads every source, checks and deduplicates its conversations, and puts them into their final order."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.files import read_rows
from k25serve.drafters.training.data.formats import read_row
from k25serve.drafters.training.data.labels import label_of
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.data.split import order_of, split_of
from k25serve.drafters.training.data.spool import Entry, Spool
from k25serve.drafters.training.progress import Progress


@dataclass
class Gathered:
    """entries: in their final order; inputs: of each source its hash, forms and rows; dropped: by reason."""

    entries: list[Entry] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def gather(options: DataOptions, files: list[Path], hashes: list[str], spool: Spool, progress: Progress) -> Gathered:
    """Raises TrainingError with file and line at the first bad row, unless the options say to skip those."""
    gathered, seen = Gathered(), set[str]()
    for place, conversation in _conversations(options, files, hashes, gathered, progress):
        kept = trimmed(conversation)
        if kept.has_media:
            gathered.dropped["images or other media"] += 1
        elif not kept.messages:
            gathered.dropped["no answer"] += 1
        elif (name := kept.id) in seen:
            gathered.dropped["duplicate"] += 1
        else:
            seen.add(name)
            label = label_of(kept)
            split = split_of(kept.opening, options.held_out)
            offset = spool.append(replace(kept, label=label))
            gathered.entries.append(Entry(order_of(name, options.seed), name, split, label, offset, place))
    gathered.entries.sort()
    if options.max_conversations is not None:
        gathered.dropped["beyond max_conversations"] += max(0, len(gathered.entries) - options.max_conversations)
        del gathered.entries[options.max_conversations :]
    if not gathered.entries:
        raise TrainingError(f"no conversation is left ({dict(gathered.dropped)}); give inputs with answers")
    return gathered


def _conversations(
    options: DataOptions, files: list[Path], hashes: list[str], gathered: Gathered, progress: Progress
) -> Iterator[tuple[str, Conversation]]:
    """With their places, as `file:line`."""
    for path, sha256 in zip(files, hashes, strict=True):
        progress.start(f"read {path.name}", None)
        forms: Counter[str] = Counter()
        for number, row in read_rows(path):
            progress.advance()
            try:
                if isinstance(row, BadRow):
                    raise row
                form, conversation = read_row(row, options.format)
            except BadRow as error:
                if not options.skip_bad:
                    raise TrainingError(f"{path}:{number}: {error}; or pass --skip-bad") from None
                gathered.dropped[f"bad row: {error.reason}"] += 1
                continue
            forms[form.value] += 1
            yield f"{path}:{number}", conversation
        gathered.inputs.append({"file": str(path), "sha256": sha256, "rows": dict(forms)})
    if options.packaged:
        from k25serve.drafters.training.data.packaged import Packaged  # with torch: only here

        progress.start("packaged chats", options.packaged)
        packaged = Packaged(options.packaged, options.seed)
        for number, conversation in enumerate(packaged, 1):
            progress.advance()
            yield f"packaged:{number}", conversation
        gathered.inputs.append({"file": "packaged", "sha256": packaged.sha256, "rows": {"openai": options.packaged}})


def trimmed(conversation: Conversation) -> Conversation:
    """Without what follows the last answer: nothing is to be predicted there."""
    answers = [place for place, message in enumerate(conversation.messages) if message["role"] == "assistant"]
    return replace(conversation, messages=conversation.messages[: answers[-1] + 1] if answers else ())
