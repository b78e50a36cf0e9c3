"""The launch's private folder: what each process of the engine says of its rows."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

REPORTS_ENV = "K25SERVE_PATCH_REPORTS"
"""Set by `launch.py` for this process and its children; without it the plugin leaves SGLang alone."""

Stage = Literal["applied", "ready"]
_PREFIX = "k25serve-patches-"
_STALE_S = 24 * 3600.0  # longer than any load: a launch that was killed could not remove its folder


@dataclass(frozen=True)
class Reports:
    """Files `STAGE-PID.json` and `fault-PID.txt` in `folder`."""

    folder: Path

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator[Self]:
        """A folder for a launch that begins, named to its processes by `REPORTS_ENV`; removed after."""
        for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if old.is_dir() and time.time() - old.stat().st_mtime > _STALE_S:
                shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder:
            os.environ[REPORTS_ENV] = folder
            yield cls(Path(folder))

    @classmethod
    def from_environment(cls) -> Self | None:
        """The folder that the launcher made, if this process belongs to a launch of ours."""
        folder = os.environ.get(REPORTS_ENV)
        return cls(Path(folder)) if folder else None

    def write(self, stage: Stage, report: dict[str, Any]) -> None:
        """Write this process's report; whoever reads sees all of it or nothing."""
        self._put(f"{stage}-{os.getpid()}.json", json.dumps(report))

    def read(self, stage: Stage) -> list[dict[str, Any]]:
        """Every process's report of a stage."""
        return [json.loads(file.read_text()) for file in sorted(self.folder.glob(f"{stage}-*.json"))]

    def write_fault(self, line: str) -> None:
        """Record why this process stops. After the launch the folder is gone, and stderr alone has the line."""
        if self.folder.is_dir():
            self._put(f"fault-{os.getpid()}.txt", line)

    def faults(self) -> list[str]:
        """What stopped processes of this launch, the first one first."""
        files = sorted(self.folder.glob("fault-*.txt"), key=lambda file: file.stat().st_mtime_ns)
        return [file.read_text() for file in files]

    def remove(self) -> None:
        """Remove the folder: the launch is judged."""
        shutil.rmtree(self.folder)

    def _put(self, name: str, text: str) -> None:
        draft = self.folder / f".{name}"
        draft.write_text(text, encoding="utf-8")
        draft.rename(self.folder / name)
