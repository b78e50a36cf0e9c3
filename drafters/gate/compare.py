"""`drafter compare`: the same prompts through several ways to speculate, none among them, in one table."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from k25serve.drafters.checkpoint.errors import GateError
from k25serve.drafters.gate.result import GateResult
from k25serve.drafters.gate.run import run_gate
from k25serve.drafters.gate.verdict import GateSettings

# Starts a profile's engine, gives its base URL, stops it afterwards.
Boot = Callable[[str], AbstractAsyncContextManager[str]]
NOISE = 0.03  # of the baseline's tokens a second: below it, two runs of one arm differ by as much


@dataclass(frozen=True)
class Arm:
    """One way to speculate: an engine that runs already (`url`), or a profile to start."""

    name: str
    url: str | None = None
    profile: str | None = None


@dataclass(frozen=True)
class Row:
    """What one arm did. tokens_per_second: completion tokens over wall time, all requests."""

    name: str
    tokens_per_second: float
    accept_length: float | None
    completion_tokens: int
    seconds: float
    failures: int


@dataclass(frozen=True)
class Compared:
    """A row beside the baseline: `speedup` over it, and in a word what that means."""

    row: Row
    speedup: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """All arms in the order in which they ran. `best`: the fastest, the baseline where none beats it."""

    baseline: str
    rows: tuple[Compared, ...]
    best: str

    def as_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {
            "baseline": self.baseline,
            "best": self.best,
            "rows": [
                {
                    "name": one.row.name,
                    "tokens_per_second": round(one.row.tokens_per_second, 2),
                    "accept_length": one.row.accept_length,
                    "completion_tokens": one.row.completion_tokens,
                    "seconds": round(one.row.seconds, 3),
                    "failures": one.row.failures,
                    "speedup": round(one.speedup, 3),
                    "verdict": one.verdict,
                }
                for one in self.rows
            ],
        }


def to_row(name: str, result: GateResult) -> Row:
    """A gate's result as a row."""
    return Row(
        name,
        result.tokens_per_second,
        result.overall.accept_length,
        result.overall.completion_tokens,
        result.seconds,
        len(result.failures),
    )


def compare_rows(rows: Sequence[Row], baseline: str | None = None) -> Comparison:
    """Each row against the baseline: the one named, else the first that did not speculate, else the first.

    Raises GateError without rows, for names that repeat, or where the baseline is none of them or made no token.
    """
    names = [row.name for row in rows]
    if not rows or len(set(names)) != len(names):
        raise GateError(f"arms {', '.join(names) or 'none'}: give at least one, each with its own name")
    chosen = baseline or next((row.name for row in rows if row.accept_length is None), names[0])
    if chosen not in names:
        raise GateError(f"--baseline {chosen}: is none of {', '.join(names)}")
    base = rows[names.index(chosen)].tokens_per_second
    if base <= 0:
        raise GateError(f"arm {chosen} made no token, so nothing can be compared with it; read its engine's log")
    compared = tuple(Compared(row, row.tokens_per_second / base, _word(row, chosen, base)) for row in rows)
    fastest = max(compared, key=lambda one: one.speedup)
    return Comparison(chosen, compared, fastest.row.name if fastest.verdict == "faster" else chosen)


async def compare(
    arms: Sequence[Arm], settings: GateSettings | None = None, boot: Boot | None = None, baseline: str | None = None
) -> Comparison:
    """Run the arms in turn, one engine at a time, and compare. `boot` starts those that name a profile.

    Raises GateError where an arm names neither an engine nor a profile that can be started, or its engine fails.
    """
    rows = []
    for arm in arms:
        if arm.url is not None:
            rows.append(to_row(arm.name, await run_gate(arm.url, settings)))
        elif arm.profile is not None and boot is not None:
            async with boot(arm.profile) as url:
                rows.append(to_row(arm.name, await run_gate(url, settings)))
        else:
            raise GateError(f"arm {arm.name}: has no url, and nothing here starts profiles; give NAME=URL")
    return compare_rows(rows, baseline)


def _word(row: Row, baseline: str, base: float) -> str:
    if row.name == baseline:
        return "baseline"
    if abs(row.tokens_per_second / base - 1) < NOISE:
        return "as fast"
    return "faster" if row.tokens_per_second > base else "slower"
