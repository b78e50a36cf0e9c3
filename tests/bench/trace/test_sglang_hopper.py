"""SGLang 0.5.17 on one H200, batch 4: three decode steps, and three verify cycles under EAGLE-3 with our verify kernel.

Cut by `bench/gpu/traces.trim` from what its `trace` stage recorded (bench/results/gpu-trace): a model of six layers,
one of them dense, with CUDA graphs. The traces have no Python calls; metadata is whole.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.report import ModeReport, TraceReport

FIXTURES = Path(__file__).parent / "fixtures"
DECODE, VERIFY = (FIXTURES / f"h200-{mode}-TP-0.trace.json.gz" for mode in ("decode", "verify"))
LAYERS, MOE_LAYERS = 6, 5


def modes(report: TraceReport) -> dict[str, ModeReport]:
    return {mode.mode: mode for mode in report.ranks[0].modes}


def launches(mode: ModeReport) -> dict[str, float]:
    return {row.name: row.launches for row in mode.classes}


@pytest.fixture(scope="module")
def decode() -> TraceReport:
    return analyse([DECODE])


@pytest.fixture(scope="module")
def verify() -> TraceReport:
    return analyse([VERIFY])


def test_decode_steps_are_those_of_the_engine(decode: TraceReport) -> None:
    assert {name: mode.steps for name, mode in modes(decode).items()} == {"decode": 3}
    one = modes(decode)["decode"]
    # From the file by hand: the ranges start at 106.435, 109.659 and 113.003 ms.
    assert one.period_ms == pytest.approx(3.3, abs=0.1)
    # Two grouped GEMMs in each MoE layer; a graph is one launch of the host.
    assert launches(one)["moe_gemm"] == 2 * MOE_LAYERS
    assert one.host_launches < 25 < one.launches


def test_a_verify_cycle_has_its_three_parts(verify: TraceReport) -> None:
    assert {name: mode.steps for name, mode in modes(verify).items()} == {
        "target_verify": 3,
        "draft": 3,
        "draft_extend": 3,
    }
    assert verify.mode == "target_verify"


def test_our_verify_kernel_is_attention(verify: TraceReport) -> None:
    kernels = _kernels(VERIFY)
    ours = [name for name in kernels if name.startswith("mla_verify")]
    assert len(ours) == 3 * 2 * LAYERS
    assert launches(modes(verify)["target_verify"])["attention"] >= 2 * LAYERS


@pytest.mark.parametrize("report", ["decode", "verify"])
def test_nearly_everything_is_known(report: str, request: pytest.FixtureRequest) -> None:
    found: TraceReport = request.getfixturevalue(report)
    assert found.ranks[0].unclassified_share < 0.005
    assert found.warnings == ()
    assert found.device == "NVIDIA H200"


def _kernels(path: Path) -> list[str]:
    rows: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return [row["name"] for row in rows if row.get("cat") == "kernel"]
