"""The plan's step costs, in the form that the patch reads."""

from itertools import accumulate
from operator import mul
from pathlib import Path

import orjson
import pytest

from k25serve.bench.plan.acceptance import load_accept
from k25serve.bench.plan.adaptive import adaptive_config, check_adaptive
from k25serve.bench.plan.calibration import load_calibration
from k25serve.bench.plan.model import Planner
from k25serve.bench.plan.step_costs import CONTEXTS, step_costs, with_costs
from k25serve.patches.adaptive import read_costs

PLANNER = Planner.build(load_calibration("rtx6kpro-k26-v4"))


@pytest.mark.parametrize("accept", ["golden", "rtx6kpro", "2.9@3"])
def test_costs_are_the_plans_own(accept: str) -> None:
    curve = load_accept(accept)
    costs = step_costs(PLANNER, curve)
    for context in CONTEXTS:
        for batch in (1, 16, 128):
            at = costs.at(batch, context)
            assert at[0] == pytest.approx(PLANNER.curve.step_ms(batch, context) / 1000)
            for k in (1, 3, 7):
                assert at[k] == pytest.approx(PLANNER.cell(batch, context, k, curve).cycle_ms / 1000)
    reached = accumulate(costs.accept_chances, mul)
    assert list(accumulate(reached, initial=1.0)) == pytest.approx([curve.length(k) for k in range(8)], abs=0.02)


def test_file_serves_sglang_and_the_patch(tmp_path: Path) -> None:
    curve = load_accept("golden")
    config = with_costs(adaptive_config(PLANNER, curve, 0), step_costs(PLANNER, curve))
    check_adaptive(config)
    assert all(0 in slot["candidate_steps"] for size, slot in config.items() if size.isdigit())
    path = tmp_path / "adaptive.json"
    path.write_bytes(orjson.dumps(config))
    costs = read_costs(path)
    assert costs == step_costs(PLANNER, curve)
    assert {k for size, slot in config.items() if size.isdigit() for k in slot["candidate_steps"]} <= set(costs.steps)
