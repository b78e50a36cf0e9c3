"""The machine as the checks see it: files under a root, programs' output, environment. Tests give another."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM_S = 20.0


@dataclass(frozen=True)
class Machine:
    """`root`: where /proc, /sys and /dev are looked for; `environ`: the environment."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def read(self, path: str) -> str | None:
        """A file's text, None where it can't be read. `path` has no leading slash."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def ask(self, *command: str, seconds: float = PROGRAM_S) -> str | None:
        """A program's output, None where it is missing, fails or takes longer."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=seconds, check=True, env=self.environ
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout

    def free_bytes(self, path: str) -> int | None:
        """Bytes of the file system at `path`, all of it: None where there is none."""
        try:
            found = os.statvfs(self.root / path)
        except OSError:
            return None
        return found.f_frsize * found.f_blocks
