"""Records of one cell -> its summary. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from k25serve.bench.gateway.quantile import quantile
from k25serve.bench.load import metrics
from k25serve.bench.load.record import Cell, RequestRecord, Speculation
from k25serve.bench.load.result import CellSummary, Spread

HOUR_S = 3600
MILLION = 1_000_000


def summarise(
    cell: Cell,
    records: Sequence[RequestRecord],
    *,
    seconds: float | None = None,
    client_cpu_share: float | None = None,
    joules: float | None = None,
    price_per_hour: float | None = None,
) -> CellSummary:
    """The summary of `records`, all of which ran in `cell`. Failed ones are counted and otherwise left out.

    seconds: the whole cell's, where `records` are a part of it.
    """
    good = [record for record in records if metrics.answered(record)]
    counted = [record.tokens for record in good if record.tokens is not None]
    output = sum(tokens.completion for tokens in counted)
    prompt = sum(tokens.prompt for tokens in counted)
    asked = sum(record.asked.max_tokens for record in good if record.asked.ignore_eos)
    seconds = duration(records) if seconds is None else seconds
    speculation = [record.speculation for record in good if record.speculation is not None]
    cached = [tokens.cached for tokens in counted if tokens.cached is not None]
    chunks = [(len(metrics.token_times(r)) - 1, r.tokens.completion - 1) for r in good if r.tokens is not None]
    later_chunks, later_tokens = (sum(max(0, pair[i]) for pair in chunks) for i in (0, 1))
    rate = output / seconds if seconds else 0.0
    return CellSummary(
        cell=cell,
        requests=len(records),
        failures=len(records) - len(good),
        output_tokens=output,
        prompt_tokens=prompt,
        reasoning_tokens=sum(tokens.reasoning for tokens in counted),
        seconds=seconds,
        tokens_per_s=rate,
        achieved_ratio=output / asked if asked else None,
        ttft_s=spread(metrics.ttft(record) for record in good),
        first_answer_s=spread(metrics.first_answer(record) for record in good),
        tpot_s=spread(metrics.tpot(record) for record in good),
        chunk_gap_s=spread(gap for record in good for gap in metrics.chunk_gaps(record)),
        tokens_per_chunk=later_tokens / later_chunks if later_chunks else None,
        accept_length=_accept_length(speculation),
        request_accept_length=spread(metrics.accept_length(record) for record in good),
        position_rate=_position_rate(speculation),
        cached_share=sum(cached) / prompt if cached and prompt else None,
        finish_reasons=dict(Counter(record.finish_reason or "none" for record in good)),
        client_cpu_share=client_cpu_share,
        joules=joules,
        joules_per_token=joules / output if joules is not None and output else None,
        price=price_per_hour / HOUR_S / rate * MILLION if price_per_hour is not None and rate else None,
    )


def spread(values: Iterable[float | None]) -> Spread | None:
    """Quantiles of the values that are there; None without any."""
    found = [value for value in values if value is not None]
    if not found:
        return None
    p50, p90, p99 = (quantile(found, q) for q in (0.5, 0.9, 0.99))
    return Spread(n=len(found), mean=sum(found) / len(found), p50=p50, p90=p90, p99=p99)


def duration(records: Sequence[RequestRecord]) -> float:
    """First send to last end, seconds."""
    if not records:
        return 0.0
    return max(r.sent_s + r.ended_s for r in records) - min(r.sent_s for r in records)


def _accept_length(counts: Sequence[Speculation]) -> float | None:
    return 1 + sum(one.accepted for one in counts) / sum(one.steps for one in counts) if counts else None


def _position_rate(counts: Sequence[Speculation]) -> tuple[float, ...]:
    """Only over requests that told their histogram."""
    total: list[int] = []
    for one in counts:
        total = [a + b for a, b in zip_longest(total, one.histogram, fillvalue=0)]
    steps = sum(total)
    return tuple(sum(total[i:]) / steps for i in range(1, len(total))) if steps else ()
