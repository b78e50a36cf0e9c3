"""Two tensor-parallel ranks over gloo, one boot: exact, each thing counted once, both ranks in a trace."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from e2e import parity
from e2e.counts import check_counts, patches_told
from e2e.pages import engine_log, page
from e2e.stack import Served, boot
from observing.queries import metric_names, panel_expressions, rule_expressions

from k25serve.bench.gpu.booted import Booted
from k25serve.bench.gpu.traces import TINY, record
from k25serve.bench.trace.analyse import analyse
from k25serve.server.engine.holders import command_of
from k25serve.server.engine.shared_memory import WORD

pytestmark = pytest.mark.engine
LAYERS = 5
RANKS = ("sglang::scheduler_TP0", "sglang::scheduler_TP1")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    sets = ("--set", "engine.dtype=float32", "--set", "engine.tp=2")
    with boot(tmp_path_factory.mktemp("tp2"), "serve", "-p", "cpu-tiny", *sets) as served:
        print(f"two ranks: ready after {served.ready_s:.0f} s")
        yield served


async def test_greedy_equals_transformers_in_fp32(two_ranks: Served) -> None:
    """As with one rank: test_eagle3.py."""
    outputs, infos = await parity.engine_outputs(two_ranks.engine_url)
    assert outputs == parity.reference(torch.float32)
    accepted, steps = (sum(info[key] for info in infos) for key in ("spec_num_correct_drafts", "spec_verify_ct"))
    print(f"two ranks: accept_length {1 + accepted / steps:.2f}")
    assert accepted > 0


async def test_both_ranks_count_as_one(two_ranks: Served) -> None:
    await check_counts(two_ranks)


async def test_what_we_ask_for_comes_from_one_rank(two_ranks: Served) -> None:
    """SGLang labels some of its metrics by rank; those that our rules and dashboards add up must not be there twice."""
    asked = {name for _, text in (*panel_expressions(), *rule_expressions()) for name in metric_names(text)}
    found = {
        name: value
        for name, value in (await page(two_ranks.engine_url)).items()
        if name.partition("{")[0] in asked and 'tp_rank="1"' in name
    }
    assert [name for name, value in found.items() if value] == []


def test_every_rank_is_a_process_with_its_rows(two_ranks: Served) -> None:
    commands = {command_of(pid) for pid in two_ranks.processes}
    assert set(RANKS) <= commands
    schedulers = [one for one in patches_told(two_ranks)["processes"] if one["process"] == "scheduler"]
    timers = {one["rank"]["tp"]: one["rows"]["step_seconds"]["facts"]["timer"] for one in schedulers}
    assert sorted(timers) == [0, 1]
    assert timers[0] == "WallTimer"
    assert timers[1].startswith("none: not the first rank")
    assert len({one["pid"] for one in schedulers}) == 2


def test_shared_memory_of_the_ranks_is_noted(two_ranks: Served) -> None:
    """What they read requests from; removed at the end: test_ranks_killed.py."""
    noted = [line for line in engine_log(two_ranks).splitlines() if line.startswith(WORD)]
    assert any("sgl_shm_" in line for line in noted), noted


def test_a_trace_of_both_ranks(two_ranks: Served, tmp_path: Path) -> None:
    engine = Booted("tp2", two_ranks.engine_url, two_ranks.gateway_url, Path(), two_ranks.ready_s, 0)
    files = record(engine, tmp_path / "trace", 2, TINY)
    assert len(files) == 2
    report = analyse([tmp_path / "trace"])
    assert (report.world_size, report.mode) == (2, "target_verify")
    assert [rank.rank for rank in report.ranks] == ["rank-0", "rank-1"]
    for rank in report.ranks:
        verify = next(mode for mode in rank.modes if mode.mode == "target_verify")
        assert verify.steps >= 3
        assert verify.all_reduce_calls == 2 * LAYERS + 1
        assert 0.05 < verify.headline.share_of_kernel_sum < 0.95
        print(f"{rank.rank}: all-reduce {verify.headline.share_of_kernel_sum:.1%} of operator time")
    assert report.wait is not None
    assert report.wait.calls_compared >= 3 * (2 * LAYERS + 1)
    assert report.wait.skew_us_median is not None
    print(f"ranks start an all-reduce {report.wait.skew_us_median:.0f} us apart (median)")
    assert 0 < report.wait.skew_us_median < 1e6
