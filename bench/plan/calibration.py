"""A machine as the planner knows it: measured decode speed over concurrency and context, with and without drafts."""

from collections import Counter
from importlib.resources import files
from pathlib import Path

from pydantic import Field, model_validator

from k25serve.bench.plan.architecture import load_architecture
from k25serve.bench.plan.bounds import (
    CONCURRENCY_AT_MOST,
    CONTEXT_AT_MOST,
    K_AT_MOST,
    RANKS_AT_MOST,
    TIME_AT_MOST,
    TOK_S_AT_MOST,
)
from k25serve.bench.plan.data_files import Part, checked, from_file, is_file, packaged
from k25serve.server.config.shown import shown
from k25serve.server.errors import UserError


class Point(Part):
    """Output tokens per second of all requests together. k: draft tokens a step; accept_rate: of those, accepted."""

    concurrency: int = Field(ge=1, le=CONCURRENCY_AT_MOST)
    context: int = Field(ge=0, le=CONTEXT_AT_MOST)
    tok_s: float = Field(ge=0.001, le=TOK_S_AT_MOST)
    k: int = Field(default=0, ge=0, le=K_AT_MOST)
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

    alpha_us: float = Field(ge=0, le=TIME_AT_MOST)
    beta_us_per_kib: float = Field(ge=0, le=TIME_AT_MOST)
    calls: int = Field(default=127, ge=0, le=100_000)
    source: str


class Profile(Part):
    """One decode step at concurrency 1 as a trace tells it (`bench trace`)."""

    step_ms: float = Field(gt=0, le=TIME_AT_MOST)
    kernel_sum_ms: float = Field(gt=0, le=TIME_AT_MOST)
    all_reduce_ms: float = Field(ge=0, le=TIME_AT_MOST)
    all_reduce_calls: int = Field(ge=0)
    hbm_efficiency: float | None = Field(default=None, gt=0, le=1)


class NgramReport(Part):
    """What n-gram speculation with k tokens did: slower by these shares."""

    k: int = Field(ge=1, le=K_AT_MOST)
    slower_least: float = Field(gt=-10, lt=1)
    slower_most: float = Field(gt=-10, lt=1)
    concurrency: int = Field(default=1, ge=1, le=CONCURRENCY_AT_MOST)

    @model_validator(mode="after")
    def _in_order(self) -> "NgramReport":
        if self.slower_least > self.slower_most:
            raise ValueError(f"slower_least {self.slower_least} is above slower_most {self.slower_most}; swap them")
        return self


class Calibration(Part):
    """A machine. With fewer than four points of its own, the shape of its curve comes from `reference`."""

    name: str
    source: str
    engine: str
    precision: str
    hardware: str
    drafter: str
    model: str
    ranks: int = Field(ge=1, le=RANKS_AT_MOST)
    all_reduce: AllReduce
    points: tuple[Point, ...]
    reference: str | None = None
    profile: Profile | None = None
    ngram: NgramReport | None = None

    @model_validator(mode="after")
    def _has_each_point_once(self) -> "Calibration":
        cells = Counter((one.concurrency, one.context, one.k) for one in self.points)
        twice = next((cell for cell, count in cells.items() if count > 1), None)
        if twice is not None:
            concurrency, context, k = twice
            raise ValueError(f"points: concurrency {concurrency}, context {context}, k {k} is there twice; keep one")
        return self

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


def load_calibration(name: str, option: str = "--calibration") -> Calibration:
    """A packaged calibration or a file of the same form. Raises UserError naming the file, and what is wrong in it."""
    found = _read(name, option)
    load_architecture(found.model, f"{option} {name}: model")
    if found.reference is not None:
        reference = _read(found.reference, f"{option} {name}: reference")
        if reference.reference is not None:
            raise UserError(
                f"{option} {name}: reference = {shown(found.reference)}: leans on a reference itself; name a machine "
                "with four points or more of its own"
            )
    return found


def _read(name: str, option: str) -> Calibration:
    path = Path(name)
    if name in calibration_names():
        content = packaged(name)
    elif is_file(path):
        content = from_file(option, path)
    else:
        raise UserError(f"{option} {name}: none of {', '.join(calibration_names())}, and no such file")
    return checked(f"{option} {name}", Calibration, content)
