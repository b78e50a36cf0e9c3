"""Files and folders -> result files of known kinds."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from k25serve.bench import provenance
from k25serve.bench.ab.result import AbData
from k25serve.bench.comm.report import CommReport
from k25serve.bench.load.result import LoadData
from k25serve.bench.report.bodies import Compared, Gate, GpuParity, GpuSpeed, GpuTrace, Other, Plan, PlanChecks, Prove
from k25serve.bench.trace.report import TraceReport
from k25serve.server.config.fault import first_fault
from k25serve.server.config.shown import one_line, shown
from k25serve.server.errors import UserError

Body = TypeVar("Body", bound=BaseModel)
UNFINISHED = "unfinished-"
GATE = "drafter-gate"


def kinds() -> dict[str, type[BaseModel]]:
    """Every kind of result that this project writes, and what its data holds."""
    return {
        "ab": AbData,
        "adaptive": Other,
        "comm": CommReport,
        "doctor": Other,
        "drafter-compare": Compared,
        "expert-budget": Other,
        "full-tier": Other,
        "gateway": Other,
        "gpu-kernels": Other,
        "gpu-parity": GpuParity,
        "gpu-speed": GpuSpeed,
        "gpu-tp": Other,
        "gpu-trace": GpuTrace,
        "kernels": Other,
        "load": LoadData,
        "plan": Plan,
        "plan-validate": PlanChecks,
        "prove": Prove,
        "trace": TraceReport,
        "trace-vs-hta": Other,
        "train-kill": Other,
        "train-warm": Other,
    }


@dataclass(frozen=True)
class Source:
    """One file. result: None for the gate's own file, which has no provenance. body: its data, checked."""

    path: Path
    kind: str
    sha256: str
    body: BaseModel
    result: provenance.Result | None

    @property
    def label(self) -> str:
        """For captions: kind, time, GPU or CPU."""
        if self.result is None:
            return f"{self.kind} {self.path.name}"
        return f"{self.kind} {self.result.started:%Y-%m-%d %H:%M}, {machine_name(self.result.machine)}"

    @property
    def started(self) -> str:
        """UTC; sorts by time."""
        if self.result is not None:
            return f"{self.result.started:%Y-%m-%d %H:%M:%S}"
        return self.body.started if isinstance(self.body, Gate) else ""


@dataclass(frozen=True)
class Sources:
    """All files of a report, oldest first. unfinished: folders of A/Bs that have not ended."""

    files: tuple[Source, ...]
    unfinished: tuple[Path, ...]

    def of(self, body: type[Body]) -> list[tuple[Source, Body]]:
        """Those whose data are `body`, and valid."""
        found = ((one, one.body) for one in self.files)
        return [(one, data) for one, data in found if isinstance(data, body) and is_valid(data)]


def is_valid(body: BaseModel) -> bool:
    """Whether its figures may be shown: a run that is no measurement has none."""
    return body.valid if isinstance(body, LoadData | AbData) else True


def machine_name(machine: provenance.Machine) -> str:
    """GPUs with their number, else the CPU."""
    names = sorted(set(machine.gpus))
    if not names:
        return f"{machine.cpu} ({machine.cores} cores, no GPU)"
    return ", ".join(f"{machine.gpus.count(name)}x {name}" for name in names)


def read_sources(paths: Sequence[Path]) -> Sources:
    """Every result file among `paths`; of a folder those below it that end in .json, A/Bs that run left out.

    Raises UserError for a file that is no result or of an unknown kind, for a path that is not there, and for none.
    """
    files: dict[Path, Path] = {}
    unfinished: set[Path] = set()
    for path in paths:
        if path.is_dir():
            for found in sorted(path.rglob("*.json")):
                started = next((one for one in found.parents if one.name.startswith(UNFINISHED)), None)
                if started is not None:
                    unfinished.add(started)
                else:
                    files.setdefault(found.resolve(), found)
        elif path.exists():
            files.setdefault(path.resolve(), path)
        else:
            raise UserError(f"{path}: not there; give result files or their folder")
    if not files:
        raise UserError(f"{', '.join(map(str, paths))}: no result files (*.json); measure something first")
    sources = sorted((_read(path) for path in files.values()), key=lambda one: (one.started, str(one.path)))
    return Sources(tuple(sources), tuple(sorted(unfinished)))


def _read(path: Path) -> Source:
    known = kinds()
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give a readable result file") from None
    except orjson.JSONDecodeError:
        raise UserError(f"{path}: not JSON; leave it out") from None
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind != GATE and (not isinstance(kind, str) or kind not in known):
        told = f"kind {shown(kind)} is not known" if isinstance(content, dict) and "kind" in content else "no result"
        raise UserError(one_line(f"{path}: {told}; leave it out, or give one of {', '.join([*known, GATE])}"))
    model: type[BaseModel] = Gate
    try:
        if kind == GATE:
            return Source(path, GATE, provenance.sha256(path), Gate.model_validate(content), None)
        model = provenance.Result
        result = provenance.read(path)
        model = known[result.kind]
        body = model.model_validate_json(orjson.dumps(result.data))
    except ValidationError as error:
        raise UserError(
            one_line(f"{path}: {first_fault(error, model)}; leave it out, or make it again with this version")
        ) from None
    return Source(path, result.kind, provenance.sha256(path), body, result)


def progress(folder: Path) -> Iterator[str]:
    """What an unfinished A/B's folder tells: turns that have ended, and when the last one did."""
    turns = sorted(folder.glob("turn-*.json"))
    yield f"{folder}: {len(turns)} turns ended"
    if turns:
        last = time.strftime("%Y-%m-%d %H:%M", time.gmtime(turns[-1].stat().st_mtime))
        yield f"the last one {last} UTC; the same `bench ab` command goes on"
