"""What one arm answered to the parity questions."""

from typing import Literal

from pydantic import NonNegativeInt

from k25serve.bench.load.record import Frozen

Unit = Literal["token", "character"]


class Greedy(Frozen):
    """A greedy answer. pieces: its tokens with `gaps`, the log-probability between the top two at each (nat), where the
    engine gave logprobs; else its characters, without gaps. Reasoning comes before the answer.
    """

    prompt_id: str
    pieces: tuple[str, ...]
    gaps: tuple[float | None, ...]
    prompt_tokens: NonNegativeInt | None


class Sampled(Frozen):
    """Sampled short answers to one prompt, as text."""

    prompt_id: str
    texts: tuple[str, ...]


class Checked(Frozen):
    """Streamed tool calls or JSON answers: `complete` were not cut by the length, `valid` of them parse."""

    what: Literal["tool_calls", "json"]
    asked: NonNegativeInt
    complete: NonNegativeInt
    valid: NonNegativeInt


class ParitySample(Frozen):
    """One pass. unit: of the greedy answers' pieces. failures: questions that got an error, with the first error."""

    unit: Unit
    greedy: tuple[Greedy, ...]
    sampled: tuple[Sampled, ...]
    checked: tuple[Checked, ...]
    failures: NonNegativeInt
    first_error: str = ""
