"""Is a measurement one at all? Findings from records alone. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from k25serve.bench.load import metrics
from k25serve.bench.load.record import Cell, RequestRecord
from k25serve.bench.load.result import Clock, Finding

LEAST_RATIO = 0.95  # of the output tokens asked for
MOST_FAILURES = 0.05  # of a cell's requests
CLOCK_STEP_S = 0.1
CLOCK_SLEW = 6e-4  # a wall clock that is being corrected runs at most 500 ppm off (adjtimex(8))
MOST_TAIL = 0.1  # of a request's time, after its last token
BURST_SHARE = 0.9  # of a stream's token events at one moment
BURST_LEAST = 24  # tokens; a short stream may come in one read of a busy client
MOST_CACHED = 0.5
MOST_CLIENT_CPU = 0.8


def check_cell(cell: Cell, records: Sequence[RequestRecord]) -> list[Finding]:
    """What is wrong with the records of one cell; nothing means that its figures may be used."""
    found = [Finding(severity="invalid", code=c, where=cell.label, detail=d) for c, d in _faults(records)]
    found += [Finding(severity="warning", code=c, where=cell.label, detail=d) for c, d in _doubts(records)]
    return found


def check_clock(clock: Clock, where: str) -> list[Finding]:
    """Wall and monotonic time over a whole run, or over one request."""
    step = clock.wall_s - clock.monotonic_s
    if abs(step) <= CLOCK_STEP_S + CLOCK_SLEW * clock.monotonic_s:
        return []
    detail = (
        f"the wall clock moved {clock.wall_s:.3f} s while {clock.monotonic_s:.3f} s passed, a step of {step:+.3f} s: "
        "it was set, or the machine slept; let no time daemon step it (chrony: makestep) and measure again"
    )
    return [Finding(severity="invalid", code="clock", where=where, detail=detail)]


def check_client(cell: Cell, cpu_share: float | None) -> list[Finding]:
    """Was it the client that was measured?"""
    if cpu_share is None or cpu_share <= MOST_CLIENT_CPU:
        return []
    detail = f"the load client was busy {cpu_share:.0%} of the time; run it on a machine of its own"
    return [Finding(severity="warning", code="client", where=cell.label, detail=detail)]


def is_valid(findings: Sequence[Finding]) -> bool:
    return not any(finding.severity == "invalid" for finding in findings)


def _faults(records: Sequence[RequestRecord]) -> Iterator[tuple[str, str]]:
    good = [record for record in records if metrics.answered(record)]
    failures = len(records) - len(good)
    if not good or failures / len(records) > MOST_FAILURES:
        first = next((record.error for record in records if record.error), "no request was made")
        yield "failed", f"{failures} of {len(records)} requests failed, the first with: {first}"
    if not good:
        return
    yield from _token_faults(good)
    repeated = [sha for sha, n in Counter(record.asked.prompt_sha256 for record in records).items() if n > 1]
    if repeated:
        yield "repeated", f"{len(repeated)} prompts were asked more than once: the repeats come from the prefix cache"
    for record in good:
        clock = Clock(monotonic_s=record.ended_s, wall_s=record.wall_ended - record.wall_sent)
        if stepped := check_clock(clock, record.asked.prompt_id):
            yield "clock", f"request {record.asked.prompt_id}: {stepped[0].detail}"
            break
    buffered = [record for record in good if _is_burst(record)]
    if len(buffered) > len(good) / 2:
        yield (
            "buffered",
            f"{len(buffered)} of {len(good)} streams came in one piece: a proxy holds them back; go past it",
        )


def _token_faults(good: Sequence[RequestRecord]) -> Iterator[tuple[str, str]]:
    counted = [record for record in good if record.tokens is not None and record.tokens.completion]
    if none := len(good) - len(counted):
        yield "no_usage", f"{none} of {len(good)} answers have no output tokens in their usage, or no usage"
    ratios = [ratio for record in good if (ratio := metrics.achieved_ratio(record)) is not None]
    ratio = sum(ratios) / len(ratios) if ratios else 1.0
    if ratio < LEAST_RATIO:
        reasons = Counter(record.finish_reason or "none" for record in good)
        told = ", ".join(f"{name} {count}" for name, count in reasons.items())
        detail = f"answers have {ratio:.3f} of the output tokens asked for, at least {LEAST_RATIO} are needed"
        yield "short", f"{detail} (finish reasons: {told}): the engine did not heed ignore_eos or max_tokens"
    if off := [record for record in counted if _cut_at_another_length(record)]:
        tokens = off[0].tokens.completion if off[0].tokens else 0
        detail = f"{len(off)} answers ended by their length but not at max_tokens, the first at {tokens}"
        yield "counts", f"{detail} of {off[0].asked.max_tokens}: they were counted anew, or met the context's end"
    if retokenised := sum(r.tokens is not None and r.tokens.source == "retokenised" for r in good):
        yield (
            "retokenised",
            f"{retokenised} answers' tokens were counted from their text; only the engine's usage counts",
        )
    odd = [fault for record in counted if (fault := _contradiction(record))]
    if odd:
        yield (
            "counts",
            f"{len(odd)} of {len(counted)} answers contradict the engine's speculation counts, first: {odd[0]}",
        )


def _cut_at_another_length(record: RequestRecord) -> bool:
    completion, limit = record.tokens.completion if record.tokens else 0, record.asked.max_tokens
    return completion > limit or (record.finish_reason == "length" and completion != limit)


def _contradiction(record: RequestRecord) -> str:
    """A prefill gives one token, each verify step one and those accepted; the limit may cut the last step."""
    counts, tokens = record.speculation, record.tokens
    if counts is None or tokens is None:
        return ""
    made = 1 + counts.steps + counts.accepted
    deepest = -(-counts.proposed // counts.steps) + 1
    if made - deepest <= tokens.completion <= made + 1:
        return ""
    return f"{tokens.completion} tokens from {counts.steps} verify steps that accepted {counts.accepted}"


def _doubts(records: Sequence[RequestRecord]) -> Iterator[tuple[str, str]]:
    good = [record for record in records if metrics.answered(record)]
    failures = len(records) - len(good)
    if 0 < failures <= MOST_FAILURES * len(records):
        first = next(record.error for record in records if record.error)
        yield "failed", f"{failures} of {len(records)} requests failed, the first with: {first}"
    if tails := sum(_tail_share(record) > MOST_TAIL for record in good):
        detail = f"{tails} of {len(good)} answers ended more than {MOST_TAIL:.0%} of their time after their last token"
        yield "tail", f"{detail}: throughput and time per output token disagree"
    counted = [record.tokens for record in good if record.tokens is not None]
    prompt = sum(tokens.prompt for tokens in counted)
    share = sum(tokens.cached or 0 for tokens in counted) / prompt if prompt else 0.0
    if share > MOST_CACHED:
        yield "cached", f"{share:.0%} of the prompt tokens came from the prefix cache: time to first token is a cache's"


def _tail_share(record: RequestRecord) -> float:
    times = metrics.token_times(record)
    return (record.ended_s - times[-1]) / record.ended_s if times and record.ended_s else 0.0


def _is_burst(record: RequestRecord) -> bool:
    gaps = metrics.chunk_gaps(record)
    tokens = record.tokens.completion if record.tokens else 0
    if tokens < BURST_LEAST:
        return False
    return not gaps or sum(gap == 0 for gap in gaps) > BURST_SHARE * len(gaps)
