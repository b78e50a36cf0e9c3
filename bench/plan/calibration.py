"""A machine as the planner knows it: measured decode speed over concurrency and context, with and without drafts."""

from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from k25serve.bench.plan.data_files import from_file, packaged
from k25serve.server.errors import UserError


class Part(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(Part):
    """Output tokens per second of all requests together. k: draft tokens a step; accept_rate: of those, accepted."""

    concurrency: int = Field(ge=1)
    context: int = Field(ge=0)
    tok_s: float = Field(gt=0)
    k: int = Field(default=0, ge=0)
    accept_rate: float | None = Field(default=None, ge=0, le=1)

    @property
    def accept_length(self) -> float | None:
        """Tokens a step: the bonus token, and what was accepted of k."""
        if self.k == 0:
            return 1.0
        return None if self.accept_rate is None else 1 + self.k * self.accept_rate

    def cycle_ms(self, accept_length: float) -> float:
        """Time from one verify step to the next, at this accept length."""
        return 1000 * self.concurrency * accept_length / self.tok_s


class AllReduce(Part):
    """t = alpha + bytes * beta for one call, as `bench comm` fits it; `calls` of them a step.

    127 is what a profile of Kimi-K2.5 on vLLM 0.16 shows: two a layer, one for the embedding, four more.
    """

    alpha_us: float = Field(ge=0)
    beta_us_per_kib: float = Field(ge=0)
    calls: int = Field(default=127, ge=0)
    source: str


class Profile(Part):
    """One decode step at concurrency 1 as a trace tells it (`bench trace`)."""

    step_ms: float
    kernel_sum_ms: float
    all_reduce_ms: float
    all_reduce_calls: int
    hbm_efficiency: float | None = None


class NgramReport(Part):
    """What n-gram speculation with k tokens did: slower by these shares."""

    k: int
    slower_least: float
    slower_most: float
    concurrency: int = 1


class Calibration(Part):
    """A machine. With fewer than four points of its own, the shape of its curve comes from `reference`."""

    name: str
    source: str
    engine: str
    precision: str
    hardware: str
    drafter: str
    model: str
    ranks: int = Field(ge=1)
    all_reduce: AllReduce
    points: tuple[Point, ...]
    reference: str | None = None
    profile: Profile | None = None
    ngram: NgramReport | None = None

    @model_validator(mode="after")
    def _has_a_base(self) -> "Calibration":
        if not self.plain(0):
            raise ValueError("points: needs at least one with k 0 and context 0")
        if self.reference is None and len(self.plain(0)) < 4:
            raise ValueError("points: under four with k 0 and context 0; add some, or name a reference")
        return self

    def plain(self, context: int | None = None) -> list[Point]:
        """Points without drafts, by concurrency; of one context, or of all."""
        return sorted(
            (one for one in self.points if one.k == 0 and context in (None, one.context)),
            key=lambda one: (one.context, one.concurrency),
        )

    def speculative(self, context: int | None = None) -> list[Point]:
        """Points with drafts."""
        return sorted(
            (one for one in self.points if one.k > 0 and context in (None, one.context)),
            key=lambda one: (one.context, one.concurrency),
        )


def calibration_names() -> list[str]:
    """Packaged calibrations."""
    folder = files("k25serve.bench.plan").joinpath("data")
    others = ("acceptance.yaml", "hardware.yaml", "models.yaml")
    return sorted(one.name.removesuffix(".yaml") for one in folder.iterdir() if one.name not in others)


def load_calibration(name: str) -> Calibration:
    """A packaged calibration or a file of the same form. Raises UserError naming what is wrong in it."""
    path = Path(name)
    if name in calibration_names():
        content = packaged(name)
    elif path.is_file():
        content = from_file("--calibration", path)
    else:
        raise UserError(f"--calibration {name}: none of {', '.join(calibration_names())}, and no such file")
    try:
        return Calibration.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        raise UserError(f"--calibration {name}: {place}: {first['msg']}") from None
