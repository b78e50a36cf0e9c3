"""The plan with a measured link against steps and traces of a machine whose times are known."""

from pathlib import Path
from typing import Any

import pytest
from rank_machine.made_up import ALPHA_US, BETA_US_PER_KIB, arms, comm_report, run_of, traced

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks import links, planned, work
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.gpu.start import Start

RANKS = 8


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("traces")
    spans = {"none": "step[DECODE bs=4]", "eagle3": "step[VERIFY bs=4]"}
    reports = {arm: {"report": traced(folder / arm, RANKS, span), "trimmed": []} for arm, span in spans.items()}
    return {"arms": arms(), "traces": reports}


def test_each_ranks_share_and_wait_is_told(worked: dict[str, Any]) -> None:
    text = work.markdown(worked)
    assert text.count("| none rank-") == text.count("| eagle3 rank-") == RANKS
    assert "all-reduces matched on all ranks" in text
    assert "rank-7 is waited for most; starts 14.0 us apart (median), 14.0 (most)" in text


def test_a_machine_of_the_models_form_is_predicted(worked: dict[str, Any], tmp_path: Path) -> None:
    setting = Setting(RANKS, "gpu-tiny", "cuda", Start((), (), tmp_path))
    report = comm_report(run_of("torch", slower=2.0), run_of("sglang-nccl"), run_of("sglang-custom", passed=False))
    found = planned.run(setting, {"report": report}, worked)
    # The traces show NCCL, so SGLang's own NCCL path it is, in graphs.
    assert found["link"]["source"] == "bench comm, sglang-nccl"
    assert found["link"]["alpha_us"] == pytest.approx(ALPHA_US)
    assert found["link"]["beta_us_per_kib"] == pytest.approx(BETA_US_PER_KIB)
    assert found["link"]["calls"] == 1
    assert len(found["predicted"]) == 9
    assert max(abs(one["error"]) for one in found["predicted"]) < 0.02
    assert {check["name"] for check in found["checks"]} == {
        "columns of context 0",
        "columns of context 0, whole column",
        "longer contexts",
    }
    assert found["checks"][0]["mean_error"] < 0.02
    rows = {(one["mode"], one["path"]): one for one in found["all_reduce"]}
    assert set(rows) == {(mode, path) for mode in planned.MODES for path in ("torch", "sglang-nccl")}
    decode = rows["decode", "sglang-nccl"]
    assert decode["kib"] == 4 * 14336 / 1024
    assert decode["predicted_ms"] == pytest.approx((ALPHA_US + BETA_US_PER_KIB * 56) / 1000)
    assert rows["target_verify", "sglang-nccl"]["kib"] == 4 * decode["kib"]
    text = planned.markdown(found)
    assert "12.0 us + 0.0200 us/KiB, 1 calls a step (bench comm, sglang-nccl)" in text
    assert "`bench plan validate`, columns of context 0: mean error 0" in text


def test_without_a_fit_there_is_no_plan() -> None:
    with pytest.raises(ProofError, match="no all-reduce fit; run the step links again"):
        links.link_of(comm_report(run_of("torch", passed=False)), ("nccl",), 6)


def test_links_are_told_with_what_failed() -> None:
    data = {"report": comm_report(run_of("torch"), run_of("sglang-custom", passed=False))}
    text = links.markdown(data)
    assert "| torch | all_to_all | yes | 12.0 | 0.0200 | 0.0% |" in text
    assert "sglang-custom: failed: rank 1 at building: no NVLink" in text


def test_a_failed_path_is_told_by_its_error_not_by_the_warning_after_it() -> None:
    report = comm_report(run_of("torch"), run_of("sglang-custom", passed=False))
    report["runs"][1]["ends"][0]["log"] = ["AssertionError: no world group", "Warning: group was not destroyed"]
    assert "sglang-custom: failed: rank 1 at building: AssertionError: no world group" in links.markdown(
        {"report": report}
    )
