"""A step of a campaign, as data."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from k25serve.bench.ab.arms import ArmSpec
from k25serve.bench.load.endpoint import Endpoint
from k25serve.bench.prove.configuration import Configuration
from k25serve.bench.prove.journal import Journal
from k25serve.server.errors import UserError

BASELINE = "baseline"
RESULTS = "results"


class StepFailed(UserError):
    """The campaign can't go on; what it has is kept, and the same command tries this step again."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Arm:
    """`name`: "baseline", or the profile's as it was given."""

    name: str
    spec: ArmSpec

    @property
    def key(self) -> str:
        """For names of steps and files."""
        return Path(self.name).stem


@dataclass(frozen=True, slots=True)
class Outcome:
    """told: one line. file: the result, None where there is none."""

    told: str
    file: Path | None = None
    status: Literal["done", "skipped"] = "done"


def skipped(why: str) -> Outcome:
    """The campaign goes on without."""
    return Outcome(why, status="skipped")


@dataclass(frozen=True, slots=True)
class Scene:
    """What a step finds. endpoint: the arm's engine, up; None where the step asks none."""

    configuration: Configuration
    journal: Journal
    arms: tuple[Arm, ...]
    endpoint: Endpoint | None
    say: Callable[[str], None]
    timeout_s: float
    key_env: str | None

    @property
    def results(self) -> Path:
        """The folder for result files."""
        return self.journal.folder / RESULTS

    def engine(self) -> Endpoint:
        """The arm's."""
        assert self.endpoint is not None
        return self.endpoint


@dataclass(frozen=True, slots=True)
class Step:
    """place: "any"; "arm", while `arm`'s engine is up; "idle", while no engine that is ours to stop runs; "end", when
    production is back: it reads the others' results.

    seconds: expected, and `why` so many.
    """

    name: str
    title: str
    seconds: float
    why: str
    run: Callable[[Scene], Awaitable[Outcome]]
    place: Literal["any", "arm", "idle", "end"] = "any"
    arm: Arm | None = None
