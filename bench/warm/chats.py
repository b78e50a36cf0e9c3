"""Conversations for the new release's drafter, as a user would have them: OpenAI messages, one a line."""

import json
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny.corpus import read_corpus
from k25serve.drafters.tiny.mixture import DRAWN
from k25serve.drafters.tiny.restyle import restyled_chats
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.data.packaged import LABELS

SEED = 2000  # neither release's target was trained on chats drawn with it


def write_chats(path: Path, count: int) -> int:
    """At most `count` chats in the new release's style, without images; returns how many.

    Raises TrainingError where the interpreter ships no sources of its library, which the chats are made of.
    """
    try:
        corpus = read_corpus()
    except FileNotFoundError as error:
        raise TrainingError(str(error)) from None
    drawn = restyled_chats(corpus, SEED, max(1, round(count * (1 - sum(DRAWN.values())))))
    rows = [
        {"messages": chat.messages, "tools": chat.tools, "label": LABELS[chat.kind]}
        for chat in drawn
        if chat.kind in LABELS
    ][:count]
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return len(rows)
