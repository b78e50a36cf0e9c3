"""Metrics of one request, as pure functions of its record. Seconds. None where the record doesn't have it."""

import itertools

from k25serve.bench.load.record import RequestRecord

TOKEN_KINDS = "rat"
ANSWER_KINDS = "at"


def token_times(record: RequestRecord) -> tuple[float, ...]:
    """When events with new reasoning, answer or tool-call text came."""
    pairs = zip(record.chunk_s, record.chunk_kinds, strict=True)
    return tuple(at for at, kind in pairs if kind in TOKEN_KINDS)


def ttft(record: RequestRecord) -> float | None:
    """To the first non-empty text of any kind: a role alone is none."""
    return next(iter(token_times(record)), None)


def first_answer(record: RequestRecord) -> float | None:
    """To the first text that isn't reasoning; None where the answer ends inside its reasoning."""
    pairs = zip(record.chunk_s, record.chunk_kinds, strict=True)
    return next((at for at, kind in pairs if kind in ANSWER_KINDS), None)


def tpot(record: RequestRecord) -> float | None:
    """(last token event - first token event) / (output tokens - 1), the tokens as the engine counted them."""
    times = token_times(record)
    if record.tokens is None or record.tokens.completion < 2 or len(times) < 2:
        return None
    return (times[-1] - times[0]) / (record.tokens.completion - 1)


def chunk_gaps(record: RequestRecord) -> tuple[float, ...]:
    """Between token events. Under speculation a chunk holds several tokens: these are no times per token."""
    times = token_times(record)
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))


def tokens_per_chunk(record: RequestRecord) -> float | None:
    """Output tokens after the first event (which carries one, from the prefill) / events after it."""
    times = token_times(record)
    if record.tokens is None or len(times) < 2:
        return None
    return (record.tokens.completion - 1) / (len(times) - 1)


def accept_length(record: RequestRecord) -> float | None:
    """1 + accepted draft tokens / verify steps, from the engine's counts."""
    counts = record.speculation
    return None if counts is None else 1 + counts.accepted / counts.steps


def achieved_ratio(record: RequestRecord) -> float | None:
    """Output tokens / tokens asked for; 0 without usage, None where the model may end the answer itself."""
    if not record.asked.ignore_eos:
        return None
    return (record.tokens.completion if record.tokens else 0) / record.asked.max_tokens


def answered(record: RequestRecord) -> bool:
    """Whole, without an error."""
    return not record.error
