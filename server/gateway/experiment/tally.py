"""One minute of one arm: what is counted, and the sums that the tests need. Pure."""

from dataclasses import dataclass, field

import orjson

from k25serve.server.gateway.ended import Ended
from k25serve.server.gateway.experiment.measure import covariates, log_seconds
from k25serve.server.gateway.experiment.settings import ExperimentSettings, Metric
from k25serve.server.gateway.experiment.sums import Sums

EXPECTED_ENDS = frozenset({"stop", "tool_calls", "function_call"})
_FAILED = ("upstream_error", "gateway_error")
_NOT_THE_ARMS = ("client_error", "cancelled")


@dataclass(slots=True)
class Counts:
    """`slow`: waited longer for the first token than the guardrail has it. `odd_ends`: see EXPECTED_ENDS.

    `moved`: came from a conversation of another arm, which could not take it; not measured.
    `tokens`: given out, wasted ones included; the squares and the product are sums over requests.
    """

    requests: int = 0
    errors: int = 0
    first_tokens: int = 0
    slow: int = 0
    ends: int = 0
    odd_ends: int = 0
    moved: int = 0
    tokens: int = 0
    wasted: int = 0
    tokens_squared: int = 0
    wasted_squared: int = 0
    wasted_tokens: int = 0

    def merge(self, other: "Counts") -> None:
        for name in Counts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def take(self, ended: Ended, ttft_limit_s: float | None, *, moved: bool) -> None:
        """Counts a request, unless its end says nothing about the arm."""
        if ended.outcome in _NOT_THE_ARMS:
            return
        self.requests += 1
        self.moved += moved
        self.errors += ended.outcome in _FAILED
        if ended.ttft is not None:
            self.first_tokens += 1
            self.slow += ttft_limit_s is not None and ended.ttft > ttft_limit_s
        if ended.finish is not None:
            self.ends += 1
            self.odd_ends += ended.finish not in EXPECTED_ENDS
        tokens = ended.wasted if ended.usage is None else ended.usage.completion
        self.tokens += tokens
        self.wasted += ended.wasted
        self.tokens_squared += tokens**2
        self.wasted_squared += ended.wasted**2
        self.wasted_tokens += ended.wasted * tokens


@dataclass(slots=True)
class Tally:
    counts: Counts = field(default_factory=Counts)
    sums: dict[Metric, Sums] = field(default_factory=dict)

    def merge(self, other: "Tally") -> None:
        self.counts.merge(other.counts)
        for metric, sums in other.sums.items():
            self.sums.setdefault(metric, Sums()).merge(sums)

    def dump(self) -> bytes:
        """JSON; load() reads it back."""
        return orjson.dumps(self)

    @staticmethod
    def load(text: str | bytes) -> "Tally":
        plain = orjson.loads(text)
        return Tally(Counts(**plain["counts"]), {metric: Sums(**sums) for metric, sums in plain["sums"].items()})


class OpenMinute:
    """A minute that still goes on. Sessions live as long as it does."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self._settings = settings
        self.tally = Tally()
        self._sessions: dict[tuple[Metric, int], tuple[int, float, list[float]]] = {}
        """Requests so far, and the means over them."""

    def take(self, ended: Ended, session: int, load: int, *, moved: bool) -> int:
        """Counts a request; the number of metrics that it was measured in.

        `session`: the conversation. `load`: other requests at the arm when this one was admitted.
        """
        self.tally.counts.take(ended, self._settings.guardrails.ttft_p99_s, moved=moved)
        found = {} if moved else log_seconds(ended, self._settings)
        if not found or ended.usage is None:
            return 0
        x = covariates(ended.usage, load, self._settings.covariates)
        for metric, y in found.items():
            sums = self.tally.sums.setdefault(metric, Sums())
            # A session is one unit however much it asks: its mean takes the place of its earlier mean.
            earlier = self._sessions.get((metric, session))
            if earlier is None:
                now = (1, y, x)
            else:
                n, mean_y, mean_x = earlier
                sums.add(mean_y, mean_x, -1)
                moved_x = [mean + (one - mean) / (n + 1) for mean, one in zip(mean_x, x, strict=True)]
                now = (n + 1, mean_y + (y - mean_y) / (n + 1), moved_x)
            sums.add(now[1], now[2])
            self._sessions[metric, session] = now
        return len(found)
