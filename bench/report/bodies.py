"""The parts of result data that a report shows, where a kind's own module has no model of it. Other keys are left."""

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from k25serve.bench.trace.report import RankReport


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class StepMean(Part):
    mean_us: NonNegativeFloat


class SpeedRow(Part):
    """One batch at one prefix. accept_length: tokens a verify step; 1 without speculation."""

    batch: PositiveInt
    prefix: NonNegativeInt
    tokens_per_second: PositiveFloat
    accept_length: PositiveFloat
    steps_by_mode: dict[str, StepMean]

    @property
    def token_ms(self) -> float:
        """Time that the engine's steps take for one output token of one request; prefill is no part of it."""
        steps = sum(one.mean_us for mode, one in self.steps_by_mode.items() if mode != "extend")
        return steps / self.accept_length / 1000


class PredictedRow(Part):
    """A verify cycle, ms, and the gain over plain decode: measured, and predicted from plain decode alone."""

    batch: PositiveInt
    prefix: NonNegativeInt
    cycle_ms: PositiveFloat
    predicted_cycle_ms: PositiveFloat
    speedup: PositiveFloat
    predicted_speedup: PositiveFloat


class GpuSpeed(Part):
    """`gpu-speed`."""

    tp: PositiveInt
    arms: dict[str, tuple[SpeedRow, ...]]
    predicted: tuple[PredictedRow, ...] = ()
    failed: tuple[str, ...] = ()


class StageTrace(Part):
    """`bench trace`'s report without its timeline. mode: the one it is about."""

    device: str
    mode: str
    ranks: tuple[RankReport, ...] = Field(min_length=1)


class TracedArm(Part):
    report: StageTrace


class GpuTrace(Part):
    """`gpu-trace`."""

    arms: dict[str, TracedArm]


class Greedy(Part):
    prompts: PositiveInt
    equal: NonNegativeInt
    largest_gap: NonNegativeFloat


class Accepted(Part):
    steps: NonNegativeFloat
    accept_length: PositiveFloat | None = None


class ParityArm(Part):
    acceptance_on_text: Accepted | None = None
    through_gateway: Accepted | None = None


class GpuParity(Part):
    """`gpu-parity`. largest_gap: of the reference's two best logits where answers part."""

    greedy: dict[str, Greedy]
    arms: dict[str, ParityArm] = {}


class Calibration(Part):
    name: str
    hardware: str
    engine: str
    precision: str
    model: str


class PlanCell(Part):
    """tok_s: of all requests with `k` draft tokens; plain_ms: a step without speculation."""

    method: str
    concurrency: PositiveInt
    context: NonNegativeInt
    k: NonNegativeInt
    speedup: PositiveFloat
    low: PositiveFloat
    high: PositiveFloat
    verdict: str
    tok_s: PositiveFloat
    plain_ms: PositiveFloat


class Plan(Part):
    """`plan`."""

    calibration: Calibration
    cells: tuple[PlanCell, ...]
    best: tuple[PlanCell, ...]


class CheckedCell(Part):
    concurrency: PositiveInt
    context: NonNegativeInt
    predicted: PositiveFloat
    observed: PositiveFloat


class Check(Part):
    name: str
    left_out: str
    mean_error: NonNegativeFloat
    bar: float | None = None
    cells: tuple[CheckedCell, ...]


class PlanChecks(Part):
    """`plan-validate`."""

    checks: tuple[Check, ...]


class ComparedRow(Part):
    name: str
    tokens_per_second: NonNegativeFloat
    tokens_per_second_min: NonNegativeFloat
    tokens_per_second_max: NonNegativeFloat
    accept_length: PositiveFloat | None
    completion_tokens: NonNegativeInt
    speedup: NonNegativeFloat
    verdict: str
    failures: NonNegativeInt
    passes: tuple[dict[str, object], ...]


class Compared(Part):
    """`drafter-compare`."""

    baseline: str
    best: str | None
    rows: tuple[ComparedRow, ...]


class GateGroup(Part):
    prompts: NonNegativeInt
    completion_tokens: NonNegativeInt
    accept_length: PositiveFloat | None


class Gate(Part):
    """`drafter-gate`: a drafter's gate, which writes a file of its own without provenance."""

    result_schema: int = Field(alias="schema", ge=1, le=1)
    kind: str
    verdict: str
    reasons: tuple[str, ...]
    model: str
    started: str
    tokens_per_second: NonNegativeFloat
    overall: GateGroup
    classes: dict[str, GateGroup]
    thinking: dict[str, GateGroup]


class Proved(Part):
    """One profile of a campaign, against its targets and its baseline."""

    sentence: str


class Prove(Part):
    """`prove`."""

    verdicts: tuple[Proved, ...]


class Other(Part):
    """A kind that is listed with its provenance and not drawn."""
