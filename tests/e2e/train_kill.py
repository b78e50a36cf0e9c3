"""A training run as a user starts it, killed with SIGKILL at drawn moments, each time started again."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from e2e.stack import COMMAND

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.training.run.processes import Process, tree

GONE_S = 120.0
END = r"done: data"
# Where to kill, how often, after which line of the run, and how far into the phase at most: the more often, the less
# far, since a run goes on where it was killed.
PHASES = (
    ("data", 3, r"\[1/5\] data", 0.9),
    ("vocab", 1, r"\[2/5\] vocab", 0.9),
    ("boot", 3, r"starts on port", 0.9),
    ("capture", 5, r"engine: ready", 0.3),
    ("fit", 7, r"\[4/5\] fit", 0.4),
    ("export", 1, r"\[5/5\] export", 0.5),
)


@dataclass(frozen=True)
class Moment:
    """phase: where it was drawn for; after: seconds after the line that begins it."""

    phase: str
    line: str
    after: float


@dataclass
class Kill:
    """reached: the last line that the run had said. left: processes of it at the kill, its engine's included.

    gone_s: until none of them was left. kept: finished files, all unchanged by the start after.
    """

    phase: str
    after: float
    reached: str
    left: int
    gone_s: float
    kept: int


@dataclass
class Killed:
    """The whole series."""

    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def draw_moments(seed: int, lengths: Mapping[str, float]) -> list[Moment]:
    """All kills of a series, in the order of the phases: a run does not come back to one that it has finished.

    lengths: of each phase, in seconds, in a run that is not killed.
    """
    draw = random.Random(seed)
    return [
        Moment(name, line, round(draw.uniform(0, most * lengths[name]), 3))
        for name, times, line, most in PHASES
        for _ in range(times)
    ]


def start(out: Path, log: Path, sets: Sequence[str]) -> "subprocess.Popen[bytes]":
    words = [word for one in sets for word in ("--set", one)]
    command = [str(COMMAND), "drafter", "train", "run", "--config", "packaged:micro", "--out", str(out), *words]
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def finish(out: Path, log: Path, sets: Sequence[str], seconds: float = 1200) -> str:
    """Start it and wait for its end; what it said."""
    process = start(out, log, sets)
    code = process.wait(seconds)
    assert code == 0, log.read_text()
    return log.read_text()


def timed(out: Path, log: Path, sets: Sequence[str]) -> dict[str, float]:
    """Run it to its end; how many seconds each phase took."""
    process, lines = start(out, log, sets), [*(line for _, _, line, _ in PHASES), END]
    began: dict[str, float] = {}
    while (code := process.poll()) is None or END not in began:
        assert code in (None, 0), log.read_text()
        text = log.read_text()
        began |= {line: time.monotonic() for line in lines if line not in began and re.search(line, text)}
        time.sleep(0.02)
    ends = [began[line] for line in lines]
    return {name: round(b - a, 3) for (name, *_), a, b in zip(PHASES, ends, ends[1:], strict=False)}


def kill_at(moments: Sequence[Moment], out: Path, log: Path, sets: Sequence[str]) -> Killed:
    """Kill at each moment; a run that ends before the next one is not counted. Asserts that nothing is left behind."""
    series, begun = Killed(), time.monotonic()
    kept: dict[Path, tuple[int, str]] = {}
    for moment in moments:
        process = start(out, log, sets)
        series.starts += 1
        seen: float | None = None
        while process.poll() is None:
            if seen is None and (re.search(moment.line, log.read_text()) or _is_past(moment, log.read_text())):
                seen = time.monotonic()
            if seen is not None and time.monotonic() - seen >= moment.after:
                break
            time.sleep(0.02)
        if process.poll() is not None:
            assert process.returncode == 0, log.read_text()
            continue
        everything = tree(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        gone = _wait_gone(everything)
        lines = log.read_text().strip().splitlines()
        series.kills.append(
            Kill(moment.phase, moment.after, lines[-1] if lines else "", len(everything) - 1, round(gone, 2), len(kept))
        )
        now = _finished_files(out)
        changed = [path for path, stamp in kept.items() if now.get(path) != stamp]
        assert not changed, f"done twice, or lost: {changed}"
        kept = now
    series.seconds = round(time.monotonic() - begun, 1)
    return series


def _is_past(moment: Moment, text: str) -> bool:
    """The phase is behind: a line of a later one is there, or the run went straight to it."""
    names = [name for name, *_ in PHASES]
    later = PHASES[names.index(moment.phase) + 1 :]
    return any(re.search(line, text) for name, _, line, _ in later if name not in ("boot", "capture"))


def _wait_gone(everything: Sequence[Process]) -> float:
    begun = time.monotonic()
    while left := [one for one in everything if one.alive]:
        assert time.monotonic() - begun < GONE_S, f"{len(left)} processes outlive the run: {left}"
        time.sleep(0.05)
    return time.monotonic() - begun


def _finished_files(out: Path) -> dict[Path, tuple[int, str]]:
    """Sealed states, finished data and vocabulary: what must never be made again."""
    found = [*out.glob("hidden/*/hs_*.safetensors"), out / "data" / "report.json", out / "vocab" / "vocab.safetensors"]
    return {path: (path.stat().st_mtime_ns, sha256(path)) for path in found if path.is_file()}


def outcome(out: Path) -> dict[str, str]:
    """Hashes of everything that a run makes, by name; of the curves without the times."""
    files = [
        out / "data" / "report.json",
        out / "vocab" / "vocab.safetensors",
        *sorted(out.glob("hidden/*/hs_*.safetensors")),
        out / "fit" / "final" / "model.safetensors",
        out / "drafter" / "model.safetensors",
        out / "drafter" / "config.json",
    ]
    hashes = {path.relative_to(out).as_posix(): sha256(path) for path in files}
    lines = [json.loads(line) for line in (out / "fit" / "curves.jsonl").read_text().splitlines()]
    return hashes | {"curves": json.dumps([{k: v for k, v in line.items() if k != "seconds"} for line in lines])}
