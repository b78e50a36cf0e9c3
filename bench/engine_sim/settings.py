"""What a simulated engine is told: once at start, and with each request."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt

Probability = Annotated[float, Field(ge=0, le=1)]

Fault = Literal[
    "queue_full",  # 503 in SGLang's words, without Retry-After
    "plain_500",  # 500 with a body that isn't JSON
    "bad_request",  # 400 in SGLang's words
    "too_long",  # 400 in SGLang's words for a prompt that doesn't fit the context
    "abort",  # everything, but the finish reason is abort
    "die_before_headers",  # hangs up instead of answering
    "die_mid_frame",  # hangs up inside the frame that follows `fault_after`
    "die_between_frames",  # hangs up after `fault_after` frames
    "end_early",  # ends the HTTP message properly after `fault_after` frames, without [DONE]
    "no_done",  # everything but [DONE]
    "error_frame",  # after `fault_after` frames, an error as SGLang streams it, then [DONE]
    "stall",  # falls silent after `fault_after` frames, the connection open
]


class ToolCall(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: tuple[str, ...]
    """The arguments' JSON text in the pieces that are streamed."""


class SimOptions(BaseModel):
    """How one request is answered. A request gives them as its field `sim`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    header_delay_s: NonNegativeFloat | None = None
    """Silence before the answer's first byte; in place of the drawn prefill time."""
    step_s: NonNegativeFloat | None = None
    """Every step's time; in place of drawn ones."""
    accepted: tuple[NonNegativeInt, ...] | None = None
    """Draft tokens accepted by each verify step; in place of drawn ones. Ends the answer unless `max_tokens` does."""
    pieces: tuple[str, ...] | None = None
    """The text of each step, the prefill's first; repeated as needed."""
    reasoning_steps: NonNegativeInt = 0
    """The text of so many steps is reasoning."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Streamed after the text."""
    prompt_tokens: PositiveInt | None = None
    cached_tokens: NonNegativeInt | None = None
    """Reported if given, as SGLang does with --enable-cache-report."""
    giant_bytes: NonNegativeInt = 0
    """Pads the first step's text to this size."""
    write_bytes: NonNegativeInt = 0
    """Bytes in each write, whatever the frames; 0: a frame in each."""
    one_write: bool = False
    """The whole stream in one write."""
    crlf: bool = False
    """Lines end in a carriage return and a line feed."""
    frames: tuple[str, ...] | None = None
    """The data of every event of a stream, word for word, [DONE] included if it is wanted: other engines' shapes."""
    whole: str | None = None
    """The body of a whole answer, word for word."""
    fault: Fault | None = None
    fault_after: NonNegativeInt = 0
    """Frames that go out before the fault; beyond the last one, `die_between_frames` and `stall` follow [DONE]."""


class SimSettings(BaseModel):
    """The simulated engine. With the same seed the n-th request is always answered alike."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: Literal["sglang", "vllm"] = "sglang"
    served_model_name: str = "sim"
    context_length: PositiveInt = 262_144
    seed: int = 0
    num_draft_tokens: NonNegativeInt = 3
    """Draft tokens that each verify step proposes; 0: no speculation, a token each step."""
    accept_probability: Probability = 0.6
    """That the target accepts a draft token, given that it accepted the ones before it."""
    prefill_s: NonNegativeFloat = 0.05
    step_s: NonNegativeFloat = 0.012
    """Mean time of a step, seconds."""
    step_cv: NonNegativeFloat = 0.1
    """Standard deviation of a step's time / its mean; times are drawn from a log-normal distribution."""
    options: SimOptions = SimOptions()
    """For requests that give none."""
