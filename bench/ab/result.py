"""What an A/B's result file holds (`kind: ab`). `gain` is always oriented so that above 1 B is the better one."""

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from k25serve.bench.load.record import Cell, Frozen
from k25serve.bench.load.result import CellSummary, Finding

Arm = Literal["A", "B"]
Metric = Literal["tokens_per_s", "tpot", "ttft"]
Scope = Literal["within these boots", "across boots"]
Outcome = Literal["faster", "slower", "mixed", "not settled", "invalid"]


class ArmFacts(Frozen):
    """An arm. kind: how it is started; spec: as the user named it; endpoint: the URL that was posted to."""

    name: Arm
    kind: Literal["url", "profile", "unit"]
    spec: str
    endpoint: str
    model: str
    server: dict[str, str]


class PlanFacts(Frozen):
    """What was decided before the first request.

    order: arms by boot, e.g. ABBAABBA. A boot of an arm that is a URL is a turn at the running engine.
    pairs: neighbouring boots of A and B, which get the same prompts and seeds.
    units: what the paired t counts: pairs of boots, or pairs of blocks inside boots.
    looks: units after which a verdict may be given, the last one the end; spent: alpha spent by then in total;
    nominal: the p value that a single comparison would have to reach there; with several, Holm's steps (stats/holm.py).
    tested: cells x metrics that share alpha (Holm).
    unit_sd: standard deviation of a unit's log ratio assumed for `detectable`: the gain that is found with `power`
    (None: none of up to 100 times is).
    hours: told at the start.
    """

    order: str
    pairs: PositiveInt
    blocks: PositiveInt
    units: PositiveInt
    scope: Scope
    cells: tuple[Cell, ...]
    metrics: tuple[Metric, ...]
    tested: PositiveInt
    alpha: float
    spending: Literal["obrien-fleming", "pocock"]
    looks: tuple[PositiveInt, ...]
    spent: tuple[float, ...]
    nominal: tuple[float, ...]
    unit_sd: float
    power: float
    detectable: float | None
    hours: float
    seed: int


class Comparison(Frozen):
    """One metric in one cell. values_a and values_b: the metric by unit; log_gains: their oriented log ratios.

    p: paired t on the log ratios. p_adjusted: after Holm over all tested. low, high: interval of the gain at
    1 - the look's nominal level, not adjusted for the number of cells; None where it is
    unbounded, as one unit's is. detectable: the gain that would have been found
    with the planned power, at the spread that was seen.
    """

    cell: Cell
    metric: Metric
    values_a: tuple[float, ...]
    values_b: tuple[float, ...]
    log_gains: tuple[float, ...]
    gain: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float
    detectable: float | None
    outcome: Literal["faster", "slower", "not settled"]


class Look(Frozen):
    """A time at which the data were judged, `units` units in."""

    units: PositiveInt
    nominal: float
    rejected: NonNegativeInt
    stopped: bool


class SameLatency(Frozen):
    """Throughput of both arms at one time per output token, between measured levels; never beyond them.

    Not one of the tested comparisons: low and high are the plain paired interval, None with fewer than 2 units.
    """

    tpot_s: float
    tokens_per_s_a: float
    tokens_per_s_b: float
    gain: float
    low: float | None
    high: float | None


class Divergence(Frozen):
    """Greedy answers to the same prompts compared, token by token where the engine gave tokens, else by character.

    first: position of the first difference for each answer that diverged; compared: positions that agreed or could.
    gaps: log-probability gap (nat) between the top two tokens where they parted, where logprobs were there.
    """

    prompts: NonNegativeInt
    diverged: NonNegativeInt
    unit: Literal["token", "character"]
    compared: NonNegativeInt
    first: tuple[NonNegativeInt, ...]
    gaps: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Share of prompts whose answers differ."""
        return self.diverged / self.prompts if self.prompts else 0.0


class Sampler(Frozen):
    """Do both arms sample from one distribution? p: permutation test on the chi-square statistic of the answers."""

    prompts: NonNegativeInt
    samples: NonNegativeInt
    p: float


class Structured(Frozen):
    """Streamed tool calls or JSON answers of one arm: `valid` of `complete`; those cut by the length don't count."""

    arm: Arm
    what: Literal["tool_calls", "json"]
    asked: NonNegativeInt
    complete: NonNegativeInt
    valid: NonNegativeInt


class Parity(Frozen):
    """Is it the same model? between: A against B; within: A against A again (two boots where there are two).

    divergence_p: Fisher's exact test, one-sided, that A and B part more often than A parts from itself.
    prompt_tokens: prompts of which both told the number of prompt tokens; mismatched: those where it differs.
    outcome: "same" where nothing was found, "different" where something was, "not measured" where too little was there.
    """

    between: Divergence | None
    within: Divergence | None
    divergence_p: float | None
    sampler: Sampler | None
    structured: tuple[Structured, ...]
    prompt_tokens: NonNegativeInt
    mismatched: NonNegativeInt
    outcome: Literal["same", "different", "not measured"]
    reasons: tuple[str, ...]


class Turn(Frozen):
    """One boot of one arm. boot_s: from its start to its first token, 0 for a URL. cells: by cell and block."""

    arm: Arm
    pair: NonNegativeInt
    boot_s: NonNegativeFloat
    seconds: NonNegativeFloat
    cells: tuple[CellSummary, ...]


class AbData(Frozen):
    """An A/B. verdict: one sentence with its scope. Records of all turns lie beside the result file, in turn order."""

    outcome: Outcome
    verdict: str
    scope: Scope
    arms: tuple[ArmFacts, ArmFacts]
    plan: PlanFacts
    looks: tuple[Look, ...]
    comparisons: tuple[Comparison, ...]
    same_latency: tuple[SameLatency, ...]
    classes: tuple[tuple[Arm, CellSummary], ...]
    parity: Parity | None
    findings: tuple[Finding, ...]
    valid: bool
    turns: tuple[Turn, ...]
    records_file: str = ""
    records_sha256: str = ""
