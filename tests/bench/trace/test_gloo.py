"""Traces of two gloo ranks of one engine: SGLang 0.5.23 on a CPU, the packaged model with EAGLE-3, two draft cycles.

Taken with /start_profile, activities CPU; cut to the two cycles, operators without their inputs.
"""

import gzip
import json
from pathlib import Path

import pytest

from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import RankError
from k25serve.bench.trace.report import ModeReport, TraceReport

FOLDER = Path(__file__).parent / "fixtures" / "gloo"
# Two a layer of five, and one for the embedding.
CALLS = 11


@pytest.fixture(scope="module")
def report() -> TraceReport:
    return analyse([FOLDER])


def verify(report: TraceReport, rank: int) -> ModeReport:
    return next(mode for mode in report.ranks[rank].modes if mode.mode == "target_verify")


def test_ranks_are_matched_call_by_call(report: TraceReport) -> None:
    assert (report.world_size, report.device, report.mode) == (2, "cpu", "target_verify")
    assert [rank.rank for rank in report.ranks] == ["rank-0", "rank-1"]
    assert [verify(report, rank).all_reduce_calls for rank in (0, 1)] == [CALLS, CALLS]
    assert report.wait is not None
    assert report.wait.calls_compared == CALLS * verify(report, 0).steps == 2 * CALLS
    assert report.wait.clock == "common base"
    assert report.wait.skew_us_median is not None
    assert report.wait.skew_us_max is not None
    assert 0 < report.wait.skew_us_median < report.wait.skew_us_max < 10_000


@pytest.mark.parametrize("rank", [0, 1])
def test_gloos_own_time_counts_not_only_its_start(report: TraceReport, rank: int) -> None:
    """Against the sum over the file's events, parsed as plain JSON."""
    (path,) = FOLDER.glob(f"*-TP-{rank}.*")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    own = sum(event["dur"] for event in events if event["name"] == "gloo:all_reduce") / 1000
    told = dict.fromkeys(("gloo", "c10d"), 0.0)
    for mode in report.ranks[rank].modes:
        for row in mode.all_reduce:
            told[row.family] += row.total_ms * mode.steps
    assert told["gloo"] == pytest.approx(own, rel=0.01)
    assert told["c10d"] < told["gloo"] / 2
    assert 0.5 < verify(report, rank).headline.share_of_kernel_sum < 0.7


def test_other_collectives_are_no_other_work(report: TraceReport) -> None:
    classes = {row.name: row for row in verify(report, 0).classes}
    assert classes["collective"].summed_ms > classes["gemm"].summed_ms
    assert report.ranks[0].unclassified_share < 0.01


def test_one_rank_of_two_is_refused() -> None:
    (path,) = FOLDER.glob("*-TP-1.*")
    with pytest.raises(RankError, match="missing: rank-0"):
        analyse([path])
