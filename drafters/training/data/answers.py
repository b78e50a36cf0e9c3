"""Finished answers of the served model, kept line by line, so that none is asked for twice."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from k25serve.drafters.training.data.conversation import Message


@dataclass(frozen=True)
class Answer:
    """cut: it ended at max_tokens, not by itself."""

    message: Message
    cut: bool


class AnswerFile:
    """A JSONL file of answers by key. A line that a killed run left half-written is removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._file = self._path.open("a+b")
        self._file.seek(0)
        offset = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self._offsets[orjson.loads(line)["key"]] = offset
            offset += len(line)
        self._file.truncate(offset)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def get(self, key: str) -> Answer | None:
        if key not in self._offsets:
            return None
        self._file.seek(self._offsets[key])
        kept = orjson.loads(self._file.readline())
        return Answer(kept["message"], kept["cut"])

    def keep(self, key: str, answer: Answer) -> None:
        """On the disk, as far as this process goes, when it returns."""
        self._offsets[key] = self._file.seek(0, 2)
        self._file.write(orjson.dumps({"key": key, "message": answer.message, "cut": answer.cut}) + b"\n")
        self._file.flush()


def key_of(conversation_id: str, body: dict[str, Any]) -> str:
    """The same request of the same conversation has the same key."""
    return hashlib.sha256(conversation_id.encode() + orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
