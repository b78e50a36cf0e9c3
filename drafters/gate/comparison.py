"""Several arms' passes -> one table of rows: which is faster, where the passes settle it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from k25serve.drafters.checkpoint.errors import GateError
from k25serve.drafters.gate.acceptance import Counts, add_up

NOISE = 0.03  # of the other arm's median tokens a second: a smaller difference is never settled
LEAST_PASSES = 2  # a single pass has no range


@dataclass(frozen=True)
class Pass:
    """All prompts once. tokens_per_second: completion tokens over wall time, all requests."""

    tokens_per_second: float
    counts: Counts | None
    completion_tokens: int
    seconds: float
    failures: int

    def as_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {
            "tokens_per_second": round(self.tokens_per_second, 2),
            "accept_length": self.counts.accept_length if self.counts else None,
            "completion_tokens": self.completion_tokens,
            "seconds": round(self.seconds, 3),
            "failures": self.failures,
        }


@dataclass(frozen=True)
class Row:
    """What one arm did in its passes, at least one. Tokens, seconds and failures are sums over them."""

    name: str
    passes: tuple[Pass, ...]

    @property
    def tokens_per_second(self) -> float:
        """The passes' median."""
        return median(one.tokens_per_second for one in self.passes)

    @property
    def slowest(self) -> float:
        return min(one.tokens_per_second for one in self.passes)

    @property
    def fastest(self) -> float:
        return max(one.tokens_per_second for one in self.passes)

    @property
    def accept_length(self) -> float | None:
        """Over all passes together; None where the engine reported no speculation."""
        return add_up(one.counts for one in self.passes if one.counts is not None).accept_length

    @property
    def completion_tokens(self) -> int:
        return sum(one.completion_tokens for one in self.passes)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.passes)

    @property
    def failures(self) -> int:
        return sum(one.failures for one in self.passes)

    def beats(self, other: "Row") -> bool:
        """Settled: every pass faster than all of the other's, and the medians further apart than noise."""
        return (
            min(len(self.passes), len(other.passes)) >= LEAST_PASSES
            and self.slowest > other.fastest
            and self.tokens_per_second > other.tokens_per_second * (1 + NOISE)
        )


@dataclass(frozen=True)
class Compared:
    """A row beside the baseline: `speedup` of its median, and baseline, faster, slower or not settled."""

    row: Row
    speedup: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """All arms in the order in which they ran. `best`: the one that beats every other, None where none does."""

    baseline: str
    rows: tuple[Compared, ...]
    best: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {
            "baseline": self.baseline,
            "best": self.best,
            "rows": [
                {
                    "name": one.row.name,
                    "tokens_per_second": round(one.row.tokens_per_second, 2),
                    "tokens_per_second_min": round(one.row.slowest, 2),
                    "tokens_per_second_max": round(one.row.fastest, 2),
                    "accept_length": one.row.accept_length,
                    "completion_tokens": one.row.completion_tokens,
                    "seconds": round(one.row.seconds, 3),
                    "failures": one.row.failures,
                    "speedup": round(one.speedup, 3),
                    "verdict": one.verdict,
                    "passes": [a_pass.as_json() for a_pass in one.row.passes],
                }
                for one in self.rows
            ],
        }


def check_names(names: Sequence[str], baseline: str | None) -> None:
    """Raises GateError without names, for names that repeat, or where the baseline is none of them."""
    if not names or len(set(names)) != len(names):
        raise GateError(f"arms {', '.join(names) or 'none'}: give at least one, each with its own name")
    if baseline is not None and baseline not in names:
        raise GateError(f"--baseline {baseline}: is none of {', '.join(names)}")


def compare_rows(rows: Sequence[Row], baseline: str | None = None) -> Comparison:
    """Each row against the baseline: the one named, else the first that did not speculate, else the first.

    Raises GateError as `check_names` does, and where the baseline made no token.
    """
    names = [row.name for row in rows]
    check_names(names, baseline)
    chosen = baseline or next((row.name for row in rows if row.accept_length is None), names[0])
    base = rows[names.index(chosen)]
    if base.tokens_per_second <= 0:
        raise GateError(f"arm {chosen} made no token, so nothing can be compared with it; read its engine's log")
    compared = tuple(Compared(row, row.tokens_per_second / base.tokens_per_second, _word(row, base)) for row in rows)
    best = next((one.name for one in rows if all(one.beats(other) for other in rows if other is not one)), None)
    return Comparison(chosen, compared, best if len(rows) > 1 else None)


def _word(row: Row, base: Row) -> str:
    if row is base:
        return "baseline"
    if row.beats(base):
        return "faster"
    return "slower" if base.beats(row) else "not settled"
