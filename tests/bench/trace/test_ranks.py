"""Ranks of a deployment: told from the trace or the file's name, whole or refused, compared without a common clock."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import RankError, TraceError
from k25serve.bench.trace.ranks import identify
from k25serve.bench.trace.synthetic import GEMM, Row, decode_steps, kernel, launch, span

SGLANG = "1796-TP-{}.trace.json.gz"
VLLM = "dp0_pp0_tp{0}_dcp0_ep{0}_rank{0}.179085702600{0}.pt.trace.json.gz"


def write(folder: Path, names: Sequence[str], *, info: bool = False, world: int = 8, base: int | None = 5) -> Path:
    for index, name in enumerate(names):
        head = synthetic.header(index if info else None, world, base_ns=base)
        synthetic.write(folder / name, decode_steps(2, 3), head)
    return folder


@pytest.mark.parametrize("pattern", [SGLANG, VLLM, "host-rank-{}.17.pt.trace.json", "p-17-TP-{}-EP-{}.trace.json.gz"])
def test_ranks_from_file_names(tmp_path: Path, pattern: str) -> None:
    report = analyse([write(tmp_path, [pattern.format(i, i) for i in range(8)])])
    assert report.world_size == 8
    assert [rank.file for rank in report.ranks] == [pattern.format(i, i) for i in range(8)]
    assert len({rank.rank for rank in report.ranks}) == 8
    (spread,) = (one for one in report.spread if one.name == "all-reduce share of kernel sum")
    assert spread.minimum == spread.median == spread.maximum == pytest.approx(40 / (105 + 5 / 3))


def test_the_traces_own_word_wins_over_the_file_name(tmp_path: Path) -> None:
    report = analyse([write(tmp_path, [f"x{7 - i}.json" for i in range(8)], info=True)])
    assert [rank.rank for rank in report.ranks] == [f"rank-{i}" for i in range(8)]
    assert [rank.file for rank in report.ranks] == [f"x{7 - i}.json" for i in range(8)]


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    folder = write(tmp_path, [SGLANG.format(i) for i in range(4)])
    files = sorted(folder.iterdir())
    first, second = analyse(files, title="x"), analyse(files[::-1], title="x")
    assert first == second


def test_stages_and_pipeline_ranks(tmp_path: Path) -> None:
    names = [
        f"9-TP-{tp}-PP-{pp}-{stage}.trace.json" for tp in (0, 1) for pp in (0, 1) for stage in ("EXTEND", "DECODE")
    ]
    report = analyse([write(tmp_path, names)])
    assert report.world_size == 4
    assert {rank.rank for rank in report.ranks} == {
        f"TP-{t}-PP-{p}-{s}" for t in "01" for p in "01" for s in ("EXTEND", "DECODE")
    }


def test_files_that_are_no_rank_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, [SGLANG.format(i) for i in range(2)])
    (folder / "merged-1796.trace.json.gz").write_text("not read")
    (folder / "host.async_llm.17.pt.trace.json.gz").write_text("not read")
    (folder / "server.log").write_text("not read")
    assert len(analyse([folder]).ranks) == 2


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, [SGLANG.format(i) for i in range(8)])
    write(folder, ["1797-TP-3.trace.json.gz"])
    with pytest.raises(RankError, match=r"there twice: TP-3 \(1796-TP-3.*TP-3 \(1797-TP-3"):
        analyse([folder])


def test_a_missing_rank_is_refused_by_name(tmp_path: Path) -> None:
    folder = write(tmp_path, [SGLANG.format(i) for i in range(8) if i not in (2, 5)])
    with pytest.raises(RankError, match=r"missing: TP-2, TP-5; .*--partial"):
        analyse([folder])
    report = analyse([folder], partial=True)
    assert len(report.ranks) == 6


def test_a_missing_last_rank_is_known_from_the_world_size(tmp_path: Path) -> None:
    folder = write(tmp_path, [f"x{i}.json" for i in range(7)], info=True, world=8)
    with pytest.raises(RankError, match="missing: rank-7"):
        analyse([folder])
    assert "partial: 7 of 8 ranks" in analyse([folder], partial=True).warnings


def test_a_rank_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, ["a.json", "b.json"])
    with pytest.raises(RankError, match=r"rank of a\.json, b\.json cannot be told"):
        analyse([folder])


def test_one_file_of_any_name_is_rank_0(tmp_path: Path) -> None:
    files, world = identify([synthetic.write(tmp_path / "trace.json", decode_steps(1, 1))])
    assert (files[0].rank.label, world) == ("rank-0", 1)


@pytest.mark.parametrize(("names", "message"), [([], r"no \*\.json"), (["x.log"], r"no \*\.json")])
def test_an_empty_folder_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).write_text("x")
    with pytest.raises(TraceError, match=message):
        analyse([tmp_path])
    with pytest.raises(TraceError, match="no such file"):
        analyse([tmp_path / "nowhere"])


def test_several_ranks_without_communication_are_an_error(tmp_path: Path) -> None:
    """A renamed collective must never read as 0 %."""
    for rank in range(2):
        rows = [span("step[DECODE bs=1]", 0, 10), launch("cudaGraphLaunch", 1, 1)]
        rows += [kernel(GEMM, 5, 9, correlation=1), kernel("ccl2Kernel_AR_Sum", 20, 9, correlation=1)]
        synthetic.write(tmp_path / SGLANG.format(rank), rows)
    with pytest.raises(TraceError, match=r"no communication kernel .*ccl2Kernel_AR_Sum"):
        analyse([tmp_path])


def test_one_rank_without_communication_is_fine(tmp_path: Path) -> None:
    rows = [span("step[DECODE bs=1]", 0, 10), launch("cudaGraphLaunch", 1, 1), kernel(GEMM, 5, 9, correlation=1)]
    report = analyse([synthetic.write(tmp_path / "a.json", rows)])
    assert report.headline.share_of_kernel_sum == 0
    assert report.wait is None


def late(folder: Path, delays: Sequence[float], bases: Sequence[int | None]) -> Path:
    """Ranks that reach every all-reduce by `delays` us later, so that their own calls are shorter by that."""
    for rank, (delay, base) in enumerate(zip(delays, bases, strict=True)):
        rows = decode_steps(2, 1, late_us=delay)
        synthetic.write(folder / SGLANG.format(rank), rows, synthetic.header(base_ns=base))
    return folder


def test_waits_need_no_common_clock(tmp_path: Path) -> None:
    report = analyse([late(tmp_path, [0.0, 25.0, 10.0], [1, 2, 3])])
    assert report.wait is not None
    assert report.wait.wait_ms_by_rank == pytest.approx({"TP-0": 0.025, "TP-1": 0.0, "TP-2": 0.015})
    assert report.wait.latest_rank == "TP-1"
    assert report.wait.share_of_all_reduce == pytest.approx(40 / (40 + 15 + 30))
    assert report.wait.skew_us_median is None
    assert "not compared" in report.wait.clock


def test_skew_where_the_clock_is_common(tmp_path: Path) -> None:
    report = analyse([late(tmp_path, [0.0, 25.0], [7, 7])])
    assert report.wait is not None
    assert (report.wait.skew_us_median, report.wait.skew_us_max) == pytest.approx((25.0, 25.0))


def test_a_common_base_with_clocks_apart_is_seen(tmp_path: Path) -> None:
    """An all-reduce cannot end on one rank before it starts on another."""
    for rank, shift in enumerate((0.0, 3000.0)):
        rows = [row._replace(start=row.start + shift) for row in decode_steps(2, 1)]
        synthetic.write(tmp_path / SGLANG.format(rank), rows)
    wait = analyse([tmp_path]).wait
    assert wait is not None
    assert wait.skew_us_median is None
    assert "clocks are not" in wait.clock


def test_ranks_with_different_all_reduces_are_not_compared(tmp_path: Path) -> None:
    for rank in range(2):
        synthetic.write(tmp_path / SGLANG.format(rank), decode_steps(2, 1 + rank))
    report = analyse([tmp_path])
    assert report.wait is None
    assert any("did not make the same all-reduces" in warning for warning in report.warnings)


def test_unclassified_time_is_listed_and_warned_of(tmp_path: Path) -> None:
    rows: list[Row] = [*decode_steps(1, 1), kernel("frobnicate", 300, 20, correlation=2)]
    report = analyse([synthetic.write(tmp_path / "a.json", rows)])
    (unknown,) = report.ranks[0].unclassified
    assert (unknown.name, unknown.share) == ("frobnicate", pytest.approx(20 / 130))
    assert any("15.4% of kernel time is unclassified (frobnicate" in warning for warning in report.warnings)
