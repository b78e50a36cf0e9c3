"""The log's files: one for each process that writes, named by when it was begun, and never more than were allowed."""

import contextlib
import fcntl
import os
import re
from datetime import UTC, datetime
from pathlib import Path

_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl")
_NEW = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LogFiles:
    """Appends whole lines. A file is made with its first line, so a start that records nothing leaves nothing.

    An open file is locked, by which other processes know not to remove it. Methods raise OSError.
    """

    def __init__(self, directory: Path, max_bytes: int, keep: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._keep = keep
        self._file: int | None = None
        self._size = 0

    def append(self, line: bytes) -> None:
        """A line that can't be written whole isn't written at all."""
        if self._file is not None and self._size + len(line) > self._max_bytes:
            self.close()
        file = self._begin() if self._file is None else self._file
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _begin(self) -> int:
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.jsonl"
        self._file, self._size = os.open(self._directory / name, _NEW, 0o600), 0
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._remove_oldest()
        return self._file

    def _remove_oldest(self) -> None:
        ours = sorted(path for path in self._directory.iterdir() if _NAME.fullmatch(path.name))
        for path in ours[: -self._keep]:
            with contextlib.suppress(FileNotFoundError, BlockingIOError):
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(file)
