import pytest
from load_records.make import CELL, failed, record
from pydantic import ValidationError

from k25serve.bench.load import metrics
from k25serve.bench.load.record import Cell, Speculation
from k25serve.bench.load.summary import summarise


def test_speculation_is_measured_by_token_not_by_chunk() -> None:
    """D02: ten chunks of three tokens, one every 30 ms."""
    one = record()
    assert metrics.tpot(one) == pytest.approx(0.010)
    assert metrics.chunk_gaps(one) == pytest.approx([0.030] * 10)
    assert metrics.tokens_per_chunk(one) == pytest.approx(3.0)
    assert metrics.accept_length(one) == pytest.approx(3.0)
    summary = summarise(CELL, [one])
    assert summary.tpot_s is not None
    assert summary.chunk_gap_s is not None
    assert summary.tpot_s.p50 == pytest.approx(0.010)
    assert summary.chunk_gap_s.p50 == pytest.approx(0.030)
    assert summary.tokens_per_chunk == pytest.approx(3.0)


def test_time_per_token_agrees_with_throughput() -> None:
    one = record()
    ttft, tpot = metrics.ttft(one), metrics.tpot(one)
    assert ttft is not None
    assert tpot is not None
    assert ttft + 30 * tpot == pytest.approx(one.ended_s, rel=0.01)


def test_failures_are_counted_and_in_no_percentile() -> None:
    """D04 (d): 3 of 100."""
    good = [record(i) for i in range(97)]
    summary = summarise(CELL, [*good, *(failed(97 + i) for i in range(3))])
    alone = summarise(CELL, good)
    assert summary.failures == 3
    assert summary.requests == 100
    assert (summary.ttft_s, summary.tpot_s, summary.output_tokens) == (
        alone.ttft_s, alone.tpot_s, alone.output_tokens,
    )  # fmt: skip
    assert summary.tpot_s is not None
    assert summary.tpot_s.n == 97


def test_sums_over_requests() -> None:
    other = record(
        1, sent_s=0.5, speculation=Speculation(steps=15, proposed=45, accepted=15, histogram=(5, 5, 5)),
    )  # fmt: skip
    summary = summarise(CELL, [record(), other], joules=124.0, price_per_hour=3600.0)
    assert summary.seconds == pytest.approx(0.901)
    assert summary.tokens_per_s == pytest.approx(62 / 0.901)
    assert summary.accept_length == pytest.approx(1 + 35 / 25)
    assert summary.position_rate == pytest.approx((20 / 25, 15 / 25))
    assert summary.joules_per_token == pytest.approx(2.0)
    assert summary.price == pytest.approx(1e6 * 0.901 / 62)
    assert summary.achieved_ratio == 1.0
    assert summary.cached_share == 0.0


def test_nothing_measured_is_nothing_told() -> None:
    summary = summarise(CELL, [failed()])
    assert (summary.ttft_s, summary.tpot_s, summary.accept_length, summary.cached_share) == (None,) * 4
    assert summary.tokens_per_s == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_s": (0.1,)},
        {"chunk_s": (0.2, 0.1), "chunk_kinds": "aa"},
        {"chunk_kinds": "x"},
        {"ended_s": -1.0},
        {"sent_s": float("nan")},
        {"surprise": 1},
    ],
)
def test_a_record_that_cannot_be_is_refused(changes: dict) -> None:
    with pytest.raises(ValidationError):
        record(**changes)


def test_labels_tell_cells_apart() -> None:
    cells = [Cell(level=8), Cell(level=8, context_tokens=16), Cell(level=8, phase="natural"), Cell(level=1)]
    assert len({cell.label for cell in cells}) == len(cells)
