"""One request's raw record: what was asked, when what came back, and what the engine counted.

A run keeps its records as JSON lines, gzipped, beside its result file. Metrics are computed from records alone
(metrics.py, cells.py), so anyone can compute them again.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]
Phase = Literal["system", "natural"]
MIXED = "mixed"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Frozen):
    """The conditions under which a request ran; records of one cell are summed up together.

    level: concurrent requests, closed loop.
    prompt_class: "mixed", or the one class of all prompts.
    context_tokens: synthetic text put before each prompt, tokens; 0: the prompt alone.
    phase: "system": a fixed number of output tokens (ignore_eos), for speed. "natural": the answer ends where the model
    ends it, for acceptance.
    """

    level: PositiveInt
    prompt_class: str = MIXED
    context_tokens: NonNegativeInt = 0
    phase: Phase = "system"

    @property
    def label(self) -> str:
        """For tables, e.g. `C=8 code 16384`."""
        context = f" context {self.context_tokens}" if self.context_tokens else ""
        natural = " natural end" if self.phase == "natural" else ""
        return f"C={self.level} {self.prompt_class}{context}{natural}"


class Asked(Frozen):
    """What the request's body said, as it was sent.

    prompt_id: class and number of the prompt, and of the pass over the prompts: unique within a run.
    prompt_sha256: hex, over messages and tools as sent. Two arms are comparable where these agree.
    """

    prompt_id: str
    prompt_class: str
    prompt_sha256: str
    max_tokens: PositiveInt
    ignore_eos: bool
    temperature: NonNegativeFloat
    seed: int


class Tokens(Frozen):
    """Token counts of one request. Reasoning and tool calls are part of `completion`.

    cached: prompt tokens that the engine took from its prefix cache; None where it doesn't say.
    source: "usage": the engine counted. "retokenised": a client counted the text it got, which is never compared.
    """

    prompt: NonNegativeInt
    completion: NonNegativeInt
    cached: NonNegativeInt | None = None
    reasoning: NonNegativeInt = 0
    source: Literal["usage", "retokenised"] = "usage"


class Speculation(Frozen):
    """The engine's own counts of one request: `steps` verify steps accepted `accepted` of `proposed` draft tokens.

    histogram[i]: verify steps that accepted exactly i draft tokens; empty where the engine doesn't say.
    """

    steps: PositiveInt
    proposed: NonNegativeInt
    accepted: NonNegativeInt
    histogram: tuple[NonNegativeInt, ...] = ()


class RequestRecord(Frozen):
    """One request. All intervals are on the monotonic clock.

    sent_s: seconds from the run's start to the call that sent the request.
    ended_s: seconds from then to the answer's end, or to its failure.
    wall_sent, wall_ended: the same two moments on the wall clock, Unix seconds: the two clocks must agree.
    chunk_s[i]: seconds from `sent` to the read that completed the i-th server-sent event.
    chunk_kinds[i]: what that event carried: `r` new reasoning text, `a` new answer text, `t` a piece of a tool call,
    `o` nothing new (a role, an empty text, a finish reason), `u` usage or counts alone, `d` [DONE], `e` an error.
    status: HTTP status, None where no answer came. error: empty where the answer is whole.
    tokens: None where the engine gave no usage.
    """

    cell: Cell
    asked: Asked
    sent_s: Finite
    ended_s: NonNegativeFloat
    wall_sent: Finite
    wall_ended: Finite
    chunk_s: tuple[NonNegativeFloat, ...] = ()
    chunk_kinds: str = Field(default="", pattern=r"^[ratoude]*$")
    status: int | None = None
    error: str = ""
    finish_reason: str | None = None
    tokens: Tokens | None = None
    speculation: Speculation | None = None

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        if len(self.chunk_s) != len(self.chunk_kinds):
            raise ValueError(f"{len(self.chunk_s)} chunk times but {len(self.chunk_kinds)} chunk kinds")
        if any(later < earlier for earlier, later in zip(self.chunk_s, self.chunk_s[1:], strict=False)):
            raise ValueError("chunk times go backwards")
        return self
