"""What a simulated engine saw, for tests and experiments to read."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Literal

from k25serve.bench.engine_sim.draw import Answer

_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Call:
    """One generation request as it arrived."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A client that left. `at`: seconds on the event loop's clock; `writes`: those that had gone out."""

    rid: str
    phase: Literal["before_headers", "streaming"]
    at: float
    writes: int


@dataclass
class Record:
    """The last calls, cancellations and aborts, and running totals.

    `running`: requests being served now.
    """

    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=_KEPT))
    cancellations: deque[Cancellation] = field(default_factory=lambda: deque(maxlen=_KEPT))
    aborts: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    served: int = 0
    running: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: int = 0
    verify_steps: int = 0
    draft_tokens: int = 0
    reached: Counter[int] = field(default_factory=Counter)
    """[i] = verify steps that accepted the draft token at position i, 0 the first."""

    def count(self, answer: Answer, n: int) -> None:
        """Adds a finished request of `n` choices to the totals, as SGLang does; vLLM counts as it goes."""
        self.finished += 1
        self.prompt_tokens += answer.prompt_tokens
        self.generation_tokens += answer.completion_tokens * n
        self.verify_steps += len(answer.accepted) * n
        self.draft_tokens += len(answer.accepted) * answer.num_draft_tokens * n
        for accepted in answer.accepted:
            self.reached.update({position: n for position in range(accepted)})
