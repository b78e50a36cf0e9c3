"""SGLang's --speculative-adaptive-config from a plan: which draft depths a batch size may switch between.

Form and constraints: SGLang 0.5.23, speculative/adaptive_spec_params.py. It picks a slot by batch size (after padding
to a captured graph) and moves between the slot's candidate steps by the accept length that it sees. Step 0 drafts
nothing, but SGLang still runs the draft-extend pass then, unless SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND=1.
"""

from collections.abc import Sequence
from typing import Any

from k25serve.bench.plan.acceptance import AcceptCurve
from k25serve.bench.plan.model import Planner
from k25serve.server.config import Profile
from k25serve.server.errors import UserError

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
STEPS = (1, 2, 3, 4, 5, 6, 7)
# adaptive_unsupported_reason in the same file: DP attention, two-batch overlap, PD multiplexing, multi-layer EAGLE.
NOT_WITH = ("--enable-dp-attention", "--enable-two-batch-overlap", "--enable-pdmux", "--enable-multi-layer-eagle")
SPAN = 2.0  # standard deviations of the accept curve that a slot's candidates cover
# Neutral thresholds: a slot's candidates come from the plan, so no bias up or down is added.
HYSTERESIS = {"up_hysteresis": 0.0, "down_hysteresis": 0.0, "ceiling_coeff": 0}


def adaptive_config(
    planner: Planner, accept: AcceptCurve, context: int, batch_sizes: Sequence[int] = BATCH_SIZES
) -> dict[str, dict[str, Any]]:
    """Slots by batch size at one context length: the best depth if drafts are accepted less, as, or more than expected.

    A slot holds 0 too where the plan is not sure that drafting pays, and so does the last one, beyond which nothing was
    measured. Where even the optimistic case does not pay, the slot holds 0 alone, and larger batches keep it.
    """
    slots: dict[str, dict[str, Any]] = {}
    previous: list[int] | None = None
    for size in sorted(batch_sizes):
        if previous == [0]:
            break
        likely = (max(0.0, 1 - SPAN * accept.error), 1.0, 1 + SPAN * accept.error)
        depths = {_best(planner, accept.shifted(factor), size, context) for factor in likely}
        expected = _best(planner, accept, size, context)
        if size == max(batch_sizes) or planner.cell(size, context, expected, accept).verdict != "pays":
            depths.add(0)
        steps = sorted(depths)
        if steps != previous:
            slots[str(size)] = {"candidate_steps": steps, **HYSTERESIS}
        previous = steps
    check_adaptive(slots)
    return slots


def _best(planner: Planner, accept: AcceptCurve, size: int, context: int) -> int:
    cells = [planner.cell(size, context, k, accept) for k in (0, *STEPS)]
    return max(cells, key=lambda cell: cell.speedup).k


def check_adaptive(config: dict[str, Any]) -> None:
    """Raise UserError where SGLang would refuse the file, or read it otherwise than meant."""
    slots = {key: value for key, value in config.items() if key.isdigit()}
    if not slots:
        raise UserError(f"adaptive config: no batch size among its keys {', '.join(config) or '(none)'}")
    if "1" not in slots:
        raise UserError("adaptive config: no slot for batch size 1; SGLang would use the smallest one below it too")
    for key, slot in slots.items():
        steps = slot.get("candidate_steps")
        if not isinstance(steps, list) or not steps or not all(type(one) is int and one >= 0 for one in steps):
            raise UserError(f"adaptive config: batch size {key}: candidate_steps {steps!r} is no list of integers >= 0")
        if steps != sorted(set(steps)):
            raise UserError(f"adaptive config: batch size {key}: candidate_steps {steps} are not rising")


def check_profile(profile: Profile) -> None:
    """Raise UserError for a deployment that adaptive speculation does not run on."""
    speculation, flags = profile.speculation, profile.engine.extra_args
    if speculation.algorithm != "eagle3":
        raise UserError(
            f"profile {profile.name}: speculation.algorithm {speculation.algorithm}: only eagle3 adapts to the load"
        )
    if speculation.topk != 1:
        raise UserError(f"profile {profile.name}: speculation.topk {speculation.topk}: only 1 adapts; set it to 1")
    for flag in NOT_WITH:
        if any(one == flag or one.startswith(f"{flag}=") for one in flags):
            raise UserError(f"profile {profile.name}: engine.extra_args {flag}: not with adaptive drafts; remove it")
