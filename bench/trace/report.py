"""What a trace analysis says: plain data, the same in the terminal, the JSON and the page. ms a step, us a call."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, model_validator

from k25serve.bench.trace.classify import CLASSES


class Part(BaseModel):
    """Base: frozen, no unknown keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Headline(Part):
    """How much of decoding is all-reduce, in 0..1, each by its full name: they differ where streams overlap.

    share_of_kernel_sum: its kernel time over all kernel time, as profilers' tables count. share_of_busy: the time that
    its union covers over the time that any kernel runs. share_of_step: that union over the steps' wall time.
    exposed_share_of_step: the part of it in which nothing is computed.
    """

    share_of_kernel_sum: float
    share_of_busy: float
    share_of_step: float
    exposed_share_of_step: float


class ClassRow(Part):
    """One kernel class in an average step. `hidden_ms` is under computation of other classes."""

    name: str
    launches: float
    summed_ms: float
    union_ms: float
    exposed_ms: float
    hidden_ms: float
    share_of_kernel_sum: float


class AllReduceRow(Part):
    """One implementation of all-reduce in an average step. `bytes_per_call` is None where the trace does not tell."""

    family: str
    calls: float
    us_per_call: float | None
    total_ms: float
    share_of_kernel_sum: float
    bytes_per_call: float | None


class ModeReport(Part):
    """The steps of one forward mode on one rank, averaged.

    period_ms: from a step's first device event to the next one's, drafts between them included. launches: device
    events; host_launches: calls of the driver that made them (one for a whole graph). gap_ms: no device event runs,
    inside the span.
    """

    mode: str
    steps: int
    kernel_sum_ms: float
    busy_ms: float
    span_ms: float
    span_ms_median: float
    span_ms_max: float
    gap_ms: float
    period_ms: float | None
    launches: float
    host_launches: float
    unattributed_launches: float
    cast_share: float
    headline: Headline
    classes: tuple[ClassRow, ...]
    all_reduce: tuple[AllReduceRow, ...]
    all_reduce_calls: float
    all_reduce_ms: float
    step_ms_by_class: tuple[tuple[float, ...], ...]


class Unclassified(Part):
    """A device event name that no rule knows, and its share of the rank's kernel time."""

    name: str
    share: float


class RankReport(Part):
    """One rank. skipped_events could not be read; unknown_events, by category, are of kinds that are not known."""

    rank: str
    file: str
    steps_from: str
    modes: tuple[ModeReport, ...]
    outside_steps_ms: float
    unclassified: tuple[Unclassified, ...]
    unclassified_share: float
    skipped_events: int
    unknown_events: dict[str, int] = {}
    events: int
    bytes_read: int


class Spread(Part):
    """A value over the ranks."""

    name: str
    minimum: float
    median: float
    maximum: float


class Wait(Part):
    """How long the ranks wait for each other inside all-reduce, in an average decoding step.

    The rank that comes last has the shortest call, so a call's wait is its time over the shortest one among the ranks:
    this needs no common clock. `skew_us` (first to last start of a call) does: None where the clocks have no common
    base.
    """

    calls_compared: int
    wait_ms_by_rank: dict[str, float]
    share_of_all_reduce: float
    latest_rank: str
    skew_us_median: float | None
    skew_us_max: float | None
    clock: str


class TimelineEvent(NamedTuple):
    """A device event of the shown step; times from the step's start."""

    start_us: float
    dur_us: float
    stream: int
    kernel_class: str
    name: str


class Timeline(Part):
    """The step of median length."""

    rank: str
    mode: str
    label: str
    events: tuple[TimelineEvent, ...]


class TraceReport(Part):
    """A deployment's profile."""

    title: str
    world_size: int
    device: str
    mode: str
    headline: Headline
    spread: tuple[Spread, ...]
    ranks: tuple[RankReport, ...]
    wait: Wait | None
    timeline: Timeline
    warnings: tuple[str, ...]

    @model_validator(mode="after")
    def _holds_what_it_shows(self) -> "TraceReport":
        if not any(
            mode.mode == self.mode for rank in self.ranks if rank.rank == self.timeline.rank for mode in rank.modes
        ):
            raise ValueError(f"ranks: no {self.mode} steps of rank {self.timeline.rank}, which the timeline shows")
        for mode in (mode for rank in self.ranks for mode in rank.modes):
            if tuple(row.name for row in mode.classes) != CLASSES:
                raise ValueError(f"classes are not {', '.join(CLASSES)}; make the result again")
        return self
