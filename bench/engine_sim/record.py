"""What a simulated engine saw, for tests and experiments to read."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

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
    verify_steps: int = 0

    def metrics(self, dialect: Literal["sglang", "vllm"] = "sglang") -> bytes:
        """The few of an engine's metrics that a gateway or a dashboard reads."""
        if dialect == "vllm":
            rows = (
                ("num_requests_running", "gauge", self.running),
                ("num_requests_waiting", "gauge", 0),
                ("prompt_tokens_total", "counter", self.prompt_tokens),
                ("generation_tokens_total", "counter", self.generation_tokens),
                ("spec_decode_num_drafts_total", "counter", self.verify_steps),
            )
            return _exposition("vllm", rows)
        rows = (
            ("num_running_reqs", "gauge", self.running),
            ("num_queue_reqs", "gauge", 0),
            ("prompt_tokens_total", "counter", self.prompt_tokens),
            ("generation_tokens_total", "counter", self.generation_tokens),
            ("spec_verify_calls_total", "counter", self.verify_steps),
        )
        return _exposition("sglang", rows)


def _exposition(prefix: str, rows: tuple[tuple[str, str, int], ...]) -> bytes:
    return "".join(f"# TYPE {prefix}:{name} {kind}\n{prefix}:{name} {value}\n" for name, kind, value in rows).encode()
