"""What a load run's result file holds (`kind: load`)."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from k25serve.bench.load.record import Cell, Frozen


class Finding(Frozen):
    """Something that makes figures worthless (`invalid`: no verdict, exit code 1) or less certain (`warning`).

    code: what, in one word, for programs: short, empty, failed, no_usage, retokenised, counts, buffered, clock, cached,
    template, ...  where: the cell's label, an arm, or both. detail: numbers and the remedy.
    """

    severity: Literal["invalid", "warning"]
    code: str
    where: str
    detail: str


class Spread(Frozen):
    """Quantiles over the requests that succeeded (nearest rank), and how many there were."""

    n: NonNegativeInt
    mean: float
    p50: float
    p90: float
    p99: float


class CellSummary(Frozen):
    """One cell. Seconds, tokens. Failed requests are counted in `failures` and in nothing else.

    achieved_ratio: output tokens / tokens asked for, over the answered requests; None where the end is natural.
    tokens_per_s: output tokens of all answered requests / (last end - first send).
    ttft_s: to the first non-empty reasoning, answer or tool-call delta.
    first_answer_s: to the first answer or tool call.
    tpot_s: per request, (last token event - first token event) / (output tokens - 1).
    chunk_gap_s: between token events of one request, one value each gap; not a time per token under speculation.
    tokens_per_chunk: output tokens after the first event / token events after the first.
    accept_length: 1 + accepted / verify steps, sums over requests; request_accept_length: its spread over requests.
    position_rate[i]: share of verify steps that accepted the draft token at position i.
    cached_share: cached / prompt tokens; None where no request told it.
    client_cpu_share: processor time of the load client / wall time; near 1 the client itself is the limit.
    joules: GPU energy over the cell's time by NVML; price: per million output tokens at the price per hour given.
    """

    cell: Cell
    requests: NonNegativeInt
    failures: NonNegativeInt
    output_tokens: NonNegativeInt
    prompt_tokens: NonNegativeInt
    reasoning_tokens: NonNegativeInt
    seconds: NonNegativeFloat
    tokens_per_s: NonNegativeFloat
    achieved_ratio: float | None = None
    ttft_s: Spread | None = None
    first_answer_s: Spread | None = None
    tpot_s: Spread | None = None
    chunk_gap_s: Spread | None = None
    tokens_per_chunk: float | None = None
    accept_length: float | None = None
    request_accept_length: Spread | None = None
    position_rate: tuple[float, ...] = ()
    cached_share: float | None = None
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    client_cpu_share: float | None = None
    joules: float | None = None
    joules_per_token: float | None = None
    price: float | None = None


class Clock(Frozen):
    """Seconds that passed on both clocks over the run; they must agree, see validity.py."""

    monotonic_s: NonNegativeFloat
    wall_s: float


class LoadData(Frozen):
    """A run. `endpoint` is the URL that was posted to; `server` what the engine says of itself.

    body: one request's body without its messages: proof of what was sent. `classes`: the mixed cells by their prompts'
    class, tokens_per_s as a part of the cell's. records_file lies beside the result file; SHA-256 of its gzipped bytes.
    """

    endpoint: str
    model: str
    runner: Literal["own", "aiperf"]
    server: dict[str, str]
    body: dict[str, object]
    seed: int
    cells: tuple[CellSummary, ...]
    classes: tuple[CellSummary, ...] = ()
    findings: tuple[Finding, ...]
    valid: bool
    clock: Clock
    records_file: str = ""
    records_sha256: str = ""
