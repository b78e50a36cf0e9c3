"""What a measurement of the links says: plain data. us a call, bytes a rank."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Operation = Literal["all_reduce", "all_to_all"]


class Part(BaseModel):
    """Base: frozen, no unknown keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Paths = Literal["torch", "sglang-nccl", "sglang-custom", "sglang-pcie-ipc"]


class Plan(Part):
    """What one run asks of its ranks. `path`: whose all-reduce; torch's own is the only one with all-to-all."""

    backend: Literal["nccl", "gloo"]
    path: Paths = "torch"
    operations: tuple[Operation, ...] = ("all_reduce",)
    sizes: tuple[int, ...]
    graphs: bool = False
    samples: int = Field(default=15, ge=1)
    calls: int = Field(default=20, ge=1, description="Calls in a sample, back to back; the sample is their mean.")


class Sample(Part):
    """Latency of one operation at one size, on one rank or, with `ranks`, the slowest of them."""

    operation: Operation
    nbytes: int
    graph: bool
    median_us: float
    p10_us: float
    p90_us: float


class Fit(Part):
    """t = alpha + bytes * beta, least squares of the relative error. `bandwidth_gb_s`: 1 / beta, not bus bandwidth."""

    operation: Operation
    graph: bool
    alpha_us: float
    beta_us_per_kib: float
    bandwidth_gb_s: float | None
    residual_rms: float
    residual_worst: float
    points: int
    smallest: int
    largest: int


class RankEnd(Part):
    """How a rank ended, and the last thing that it said it was at."""

    rank: int
    stage: str
    outcome: Literal["done", "failed", "hung", "ended with the others"]
    exit_code: int | None
    unkillable: bool = False
    log: tuple[str, ...] = ()


class Run(Part):
    """One set of ranks in its time box. `environment`: what was added to the shell's."""

    variant: str
    environment: dict[str, str]
    plan: Plan
    ranks: int
    passed: bool
    seconds: float
    limit_s: float
    nccl: str = ""
    ends: tuple[RankEnd, ...]
    samples: tuple[Sample, ...] = ()
    fits: tuple[Fit, ...] = ()

    @property
    def hung(self) -> bool:
        """Whether the time box ended it."""
        return any(end.outcome == "hung" for end in self.ends)


class Host(Part):
    """What decides whether peer-to-peer transfers work. `findings` are lines for a person."""

    kernel_command_line: str
    iommu_groups: int
    iommu_type: str
    topology: str
    nccl_environment: dict[str, str]
    findings: tuple[str, ...]


class CommReport(Part):
    """All runs on this host."""

    host: Host
    runs: tuple[Run, ...]
