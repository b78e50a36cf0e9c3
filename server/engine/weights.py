"""How far the weights are read: from the files that the engine's processes have open or mapped, whatever loader reads.

Bytes of the page cache or of the disk would mislead: a warm cache reads nothing, and ranks that drift apart read twice.
"""

import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from k25serve.server.engine.holders import link_target

WINDOW_S = 120.0
GB = 10**9


@dataclass(frozen=True)
class Reading:
    """Bytes read of all, target and drafter; `left_s`: seconds that the rest will take at the present rate."""

    done: int
    total: int
    left_s: float | None

    def __str__(self) -> str:
        text = f"{self.done / self.total:.0%}, {self.done / GB:,.1f} of {self.total / GB:,.1f} GB"
        if self.left_s is None:
            return text
        rate = (self.total - self.done) / self.left_s / GB if self.left_s else 0.0
        left = f"{self.left_s / 60:.0f} min" if self.left_s >= 90 else f"{self.left_s:.0f} s"
        return f"{text} at {rate:.2f} GB/s, {left} left"


class WeightsMeter:
    """Follows one load. Every rank reads every file; the one that is furthest behind counts.

    A file that is open counts as half read: SGLang's loader has several in flight (sliding window, 8 threads).
    """

    def __init__(self, folders: Sequence[str], proc: Path = Path("/proc")) -> None:
        files = [file for folder in folders for file in Path(folder).glob("*.safetensors")]
        self._sizes = {os.path.realpath(file): file.stat().st_size for file in files}
        self._proc = proc
        self._seen: dict[int, set[str]] = {}
        self._done = 0
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self, pids: Iterable[int], now: float) -> Reading | None:
        """Look at the processes at second `now` of any clock; None while none of them has one of the files open."""
        behind: list[int] = []
        for pid in pids:
            current = self._open_files(pid)
            if not current:  # no rank, or between two models: it holds nobody back
                continue
            seen = self._seen.setdefault(pid, set())
            seen |= current
            behind.append(sum(map(self._sizes.__getitem__, seen)) - sum(map(self._sizes.__getitem__, current)) // 2)
        if not behind:
            return None
        self._done = max(self._done, min(behind))
        self._samples.append((now, self._done))
        while now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        return Reading(self._done, sum(self._sizes.values()), self._left())

    def _left(self) -> float | None:
        (since, before), (now, done) = self._samples[0], self._samples[-1]
        if done <= before:
            return None
        return (sum(self._sizes.values()) - done) * (now - since) / (done - before)

    def _open_files(self, pid: int) -> set[str]:
        folder = self._proc / str(pid)
        try:
            with (folder / "maps").open(encoding="utf-8", errors="surrogateescape") as file:
                # The sixth field, which may hold blanks.
                found = {line.split(maxsplit=5)[-1].rstrip("\n") for line in file if line.endswith(".safetensors\n")}
            found.update(map(link_target, (folder / "fd").iterdir()))
        except OSError:  # it ended while we looked
            return set()
        return found & self._sizes.keys()
