"""One generation request that has ended, as an experiment needs it."""

from dataclasses import dataclass
from typing import Literal

from k25serve.server.gateway.usage import Usage

Outcome = Literal["ok", "client_error", "upstream_error", "disconnected", "cancelled", "gateway_error"]


@dataclass(frozen=True, slots=True)
class Ended:
    """Times are seconds; None: it has none, or the engine didn't say.

    `ttft`: from the request's last byte to the first token. `decode`: from the first token to the last.
    `wasted`: tokens given out for an answer that nobody stayed for. `one_choice`: the answer was a single sequence.
    """

    outcome: Outcome
    ttft: float | None
    decode: float | None
    usage: Usage | None
    wasted: int
    finish: str | None
    one_choice: bool
