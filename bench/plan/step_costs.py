"""The plan as a table of step costs, for the patch that adapts draft steps to cost (`patches/adaptive`)."""

from itertools import pairwise
from typing import Any

from k25serve.bench.plan.acceptance import AcceptCurve
from k25serve.bench.plan.adaptive import BATCH_SIZES, STEPS
from k25serve.bench.plan.model import Planner
from k25serve.patches.adaptive.costs import KEY, StepCosts

CONTEXTS = (0, 4096, 16384, 65536, 131072, 262144)


def step_costs(planner: Planner, accept: AcceptCurve) -> StepCosts:
    """Seconds of a step by batch, context and draft steps; the accept curve is what the policy believes at first."""
    ks = (0, *STEPS)
    return StepCosts(
        source=f"bench plan, {planner.machine.name}, {accept.name}",
        batches=BATCH_SIZES,
        contexts=CONTEXTS,
        steps=ks,
        seconds=tuple(
            tuple(tuple(planner.cell(batch, context, k, accept).cycle_ms / 1000 for k in ks) for context in CONTEXTS)
            for batch in BATCH_SIZES
        ),
        draft_extend_seconds=planner.draft_ms / 1000,
        accept_chances=_chances(accept),
    )


def with_costs(config: dict[str, dict[str, Any]], costs: StepCosts) -> dict[str, Any]:
    """SGLang's config with the table beside its slots, and no speculation in each: the table knows when it pays."""
    slots = {size: {**slot, "candidate_steps": sorted({0, *slot["candidate_steps"]})} for size, slot in config.items()}
    return {**slots, KEY: costs.model_dump(mode="json")}


def _chances(accept: AcceptCurve) -> tuple[float, ...]:
    """Of each draft token, given those before it; measured curves may rise by their noise."""
    gains = [1.0, *(accept.length(k) - accept.length(k - 1) for k in STEPS)]
    return tuple(min(1.0, after / before) if before > 0 else 0.0 for before, after in pairwise(gains))
