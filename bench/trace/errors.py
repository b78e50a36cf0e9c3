"""Errors of a trace analysis, each told in one line.

TraceError          a file or a set of files that no share may be computed from
├── DamagedTrace    a file is cut, or holds what cannot be read; names the file and the byte
└── RankError       ranks are missing, there twice, or cannot be told
"""

from pathlib import Path

from k25serve.server.errors import UserError


class TraceError(UserError):
    """A file or a set of files that no share may be computed from."""


class DamagedTrace(TraceError):
    """A file is cut or unreadable. `offset` counts bytes of the JSON text, that is after decompression."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path}: {reason} at byte {offset}")
        self.path = path
        self.offset = offset


class RankError(TraceError):
    """Ranks are missing, there twice, or cannot be told."""
