"""The bars for k25serve, and whether a run meets them. Pure."""

import statistics
from typing import Any, NamedTuple

OURS, YARDSTICK, DIRECT = "k25serve", "raw", "direct"
OTHERS = "others_cpus"
QUIET = 0.1
"""With more CPUs than this busy elsewhere, tails of latency are the machine's."""


class Measure(NamedTuple):
    """One row of the table. `bar` and `aim` are upper limits for k25serve. `added`: over direct in the same round."""

    name: str
    key: str
    added: bool = False
    bar: float | None = None
    aim: float | None = None


MEASURES = (
    Measure("CPU us per streamed chunk", "chunk_us", bar=30, aim=20),
    Measure("CPU us per non-streaming request", "whole_us", bar=230, aim=120),
    Measure("non-streaming requests / s, C=16", "whole_per_s"),
    Measure("added TTFT p50 ms, C=1", "c1_ttft_p50_ms", added=True, bar=0.50, aim=0.35),
    Measure("added TTFT p99 ms, C=1", "c1_ttft_p99_ms", added=True, bar=0.80, aim=0.60),
    Measure("added e2e p50 ms, C=1", "c1_e2e_p50_ms", added=True),
    Measure("added e2e p99 ms, C=1", "c1_e2e_p99_ms", added=True),
    Measure("added non-streaming p50 ms, C=1", "c1_whole_p50_ms", added=True),
    Measure("added TTFT p50 ms, C=64", "c64_ttft_p50_ms", added=True),
    Measure("added TTFT p99 ms, C=64", "c64_ttft_p99_ms", added=True),
    Measure("added e2e p50 ms, C=64", "c64_e2e_p50_ms", added=True),
    Measure("added e2e p99 ms, C=64", "c64_e2e_p99_ms", added=True),
    Measure("chunk delay p50 ms, 64 streams", "delay_p50_ms"),
    Measure("chunk delay p99 ms", "delay_p99_ms"),
    Measure("longest gap ms", "gap_max_ms"),
    Measure("frames per read", "frames_per_read"),
    Measure("memory at start, MB", "rss_start_mb"),
    Measure("memory after the load, MB", "rss_after_mb"),
    Measure("memory after many requests, MB", "rss_many_mb", bar=80),
    Measure("errors", "errors", bar=0),
    Measure("CPUs busy with something else", OTHERS),
)
CANCEL_BAR_MS = 5.0
GROWTH_BAR = 0.02
"""Of memory, over the second half of the many requests."""
ALLOWED = ("rid changed", "messages[].content joined into one string")
"""Our gateway's documented rewrites. A client's rid is replaced, since SGLang aborts by prefix and a chosen one could
end others' requests; a list of text parts becomes their text, which is what the model's template reads."""

Rounds = dict[str, list[dict[str, Any]]]
"""For each arm, what each round's visit measured."""


def values(rounds: Rounds, arm: str, measure: Measure) -> list[float]:
    """One value for each round that has it, in order."""
    found = []
    for visit, base in zip(rounds[arm], rounds[DIRECT], strict=True):
        if measure.key in visit:
            found.append(visit[measure.key] - (base[measure.key] if measure.added else 0.0))
    return found


def disturbed(rounds: Rounds) -> list[str]:
    """The visits during which the machine had other work, in words.

    A gateway that shares its CPU waits for the scheduler's tick, 4 ms at 250 Hz, in one request of a hundred; direct
    has no process there, so it doesn't.
    """
    return [
        f"{arm}, round {number}: the machine was busy with something else, {visit[OTHERS]:.2f} CPUs: "
        "its p99 is not settled"
        for arm, visits in rounds.items()
        for number, visit in enumerate(visits, 1)
        if visit[OTHERS] > QUIET
    ]


class Verdict(NamedTuple):
    """`limit` in words; `met` is None where it was not measured."""

    name: str
    limit: str
    value: str
    met: bool | None
    aim: str = ""


def verdicts(rounds: Rounds) -> list[Verdict]:
    """Every bar, by the median of the rounds."""
    found = [_verdict(rounds, measure) for measure in MEASURES if measure.bar is not None]
    behaviour = _behaviour(rounds, OURS)
    last = rounds[OURS][-1]
    if "rss_half_mb" in last:
        growth = last["rss_many_mb"] / last["rss_half_mb"] - 1
        text = f"{growth:+.1%} over the second half of {last['many_requests']:,} requests"
        found.append(Verdict("memory is flat", f"<= {GROWTH_BAR:.0%}", text, growth <= GROWTH_BAR))
    if behaviour is not None:
        for situation, times in behaviour["cancel_ms"].items():
            late = [time for time in times if time is None or time > CANCEL_BAR_MS]
            found.append(
                Verdict(f"engine freed, {situation}", f"<= {CANCEL_BAR_MS:g} ms", cancel_text(times), not late)
            )
        lost = [line for line in behaviour["fields"] if line not in ALLOWED]
        found.append(Verdict("request fields lost or changed", "none", ", ".join(lost) or "none", not lost))
        attempts = behaviour["on_503"]["attempts"]
        found.append(Verdict("attempts on a 503", "1", str(attempts), attempts == 1))
    return found


def ahead(rounds: Rounds) -> list[str]:
    """Where a peer's median is better than ours, in words; differences under 20 % are not settled."""
    lines = []
    for measure in MEASURES:
        if measure.bar is None or measure.key == "errors" or not values(rounds, OURS, measure):
            continue
        ours = statistics.median(values(rounds, OURS, measure))
        for arm in rounds:
            theirs = values(rounds, arm, measure)
            if arm in (OURS, DIRECT) or not theirs or statistics.median(theirs) >= ours:
                continue
            other = statistics.median(theirs)
            settled = "" if other < 0.8 * ours else " (under 20 %: not settled)"
            lines.append(f"{arm} is ahead in {measure.name}: {other:.2f} against {ours:.2f}{settled}")
    return lines


def cancel_text(times: list[float | None]) -> str:
    """The worst of the repeats, which is what counts."""
    never = times.count(None)
    if never:
        return f"never ({never} of {len(times)})"
    return f"{max(time for time in times if time is not None):.1f} ms"


def _verdict(rounds: Rounds, measure: Measure) -> Verdict:
    found = values(rounds, OURS, measure)
    limit = f"<= {measure.bar:g}"
    if not found:
        return Verdict(measure.name, limit, "not measured", None)
    middle = statistics.median(found)
    assert measure.bar is not None
    aim = "" if measure.aim is None else f"aim {measure.aim:g}: {'met' if middle <= measure.aim else 'missed'}"
    return Verdict(measure.name, limit, f"{middle:.2f}", middle <= measure.bar, aim)


def _behaviour(rounds: Rounds, arm: str) -> dict[str, Any] | None:
    return next((visit["behaviour"] for visit in rounds[arm] if "behaviour" in visit), None)
