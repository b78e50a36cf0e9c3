"""Result files: what was measured, by which command, on what. The only reader and writer of them.

A result is one JSON file under bench/results/<kind>/. It holds what a sceptic needs to make it again.
"""

import errno
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
KIND = r"^[a-z][a-z0-9-]*$"
PACKAGES = ("k25serve", "sglang", "torch", "triton", "transformers", "aiohttp", "uvicorn")


class Machine(BaseModel):
    """Where it ran. `gpus` and `driver` are empty on a machine without an NVIDIA GPU."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str
    cores: int
    memory_gib: float
    system: str
    gpus: tuple[str, ...] = ()
    driver: str = ""

    @classmethod
    def here(cls) -> Self:
        """This machine."""
        gpus = _ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
        rows = [tuple(part.strip() for part in line.split(",")) for line in gpus]
        return cls(
            cpu=_cpu_name(),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            system=platform.platform(),
            gpus=tuple(row[0] for row in rows),
            driver=rows[0][1] if rows else "",
        )


class Result(BaseModel):
    """A result file's content. `data` is the measurement, its layout told by `kind`; `seconds` is wall time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    result_schema: int = Field(default=SCHEMA, alias="schema", ge=1, le=SCHEMA)
    kind: str = Field(pattern=KIND)
    command: str
    git: str
    dirty: bool
    versions: dict[str, str]
    machine: Machine
    started: datetime
    seconds: float = Field(ge=0)
    inputs: dict[str, str] = {}
    data: dict[str, Any]
    notes: str = ""


class Recorder:
    """Notes the start of a measurement; `finish` makes the result."""

    def __init__(self, kind: str, command: Sequence[str] | None = None) -> None:
        self._kind = kind
        self._command = list(command) if command is not None else [Path(sys.argv[0]).name, *sys.argv[1:]]
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()
        # Of the code as it was loaded: a long run may end after the next commit.
        source = Path(__file__).parent
        self._git = _ask("git", "rev-parse", "HEAD", cwd=source)
        self._dirty = bool(_ask("git", "status", "--porcelain", cwd=source))

    def finish(self, data: dict[str, Any], inputs: Iterable[Path] = (), notes: str = "") -> Result:
        """The result of what was measured since the start; `inputs` are files, told by their SHA-256."""
        return Result(
            kind=self._kind,
            command=" ".join(self._command),
            git=self._git,
            dirty=self._dirty,
            versions={"python": platform.python_version(), **_versions()},
            machine=Machine.here(),
            started=self._started,
            seconds=round(time.monotonic() - self._clock, 3),
            inputs={path.name: sha256(path) for path in inputs},
            data=data,
            notes=notes,
        )


def write(result: Result, folder: Path) -> Path:
    """Write `result` to folder/<kind>/<start>.json in one step; return the path. Refuses to write it twice.

    Where another result has that second already, the name holds the microseconds too.
    """
    path = folder / result.kind / f"{result.started:%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and read(path).started != result.started:
        path = path.with_stem(f"{path.stem}-{result.started:%f}")
    if path.exists():
        raise FileExistsError(errno.EEXIST, "a result is never overwritten", str(path))
    temporary = path.with_suffix(".part")
    temporary.write_bytes(
        orjson.dumps(
            result.model_dump(mode="json", by_alias=True), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        )
    )
    temporary.replace(path)
    return path


def read(path: Path) -> Result:
    """Read a result file. Raises pydantic.ValidationError where it is not one of this schema."""
    return Result.model_validate_json(path.read_bytes())


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _ask(*command: str, cwd: Path | None = None) -> str:
    """A program's output, stripped; empty where the program is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, cwd=cwd).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return ""
