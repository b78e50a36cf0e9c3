"""Cost tables of the plan, at the speed of eight SM120 cards."""

import pytest

from k25serve.bench.plan.acceptance import load_accept
from k25serve.bench.plan.calibration import load_calibration
from k25serve.bench.plan.model import Planner
from k25serve.bench.plan.step_costs import step_costs
from k25serve.patches.adaptive import StepCosts


@pytest.fixture(scope="session")
def tables() -> dict[str, StepCosts]:
    """How often verification reads the context -> costs. Batch 1 to 128, to 262,144 tokens, 0 to 7 steps."""
    machine, golden = load_calibration("rtx6kpro-k26-v4"), load_accept("golden")
    return {
        "tokens": step_costs(Planner.build(machine, verify_rows="tokens"), golden),
        "requests": step_costs(Planner.build(machine, verify_rows="requests"), golden),
    }
