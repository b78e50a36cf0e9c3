"""The checked conversations on disk while they wait for their order, so that memory holds an index alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO

import orjson

from k25serve.drafters.training.data.conversation import Conversation


@dataclass(frozen=True, order=True, slots=True)
class Entry:
    """order: the sort key; id, split and label of the conversation at `offset`; where it came from, for errors."""

    order: str
    id: str
    split: str
    label: str
    offset: int
    place: str


class Spool:
    """An appendable file of conversations."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("w+b")

    def append(self, conversation: Conversation) -> int:
        """The offset by which `read` finds it again."""
        offset = self._file.seek(0, 2)
        self._file.write(orjson.dumps(conversation.as_json()) + b"\n")
        return offset

    def read(self, entry: Entry) -> Conversation:
        self._file.seek(entry.offset)
        return Conversation.from_json(orjson.loads(self._file.readline()))

    def close(self) -> None:
        self._file.close()
