"""The manifest."""

from k25serve.patches.manifest.row import Row
from k25serve.patches.manifest.rows import (
    accepted_tokens,
    adaptive_costs,
    capture_states,
    lossy_expert_budget,
    mla_verify,
    self_check,
    spec_tokens_details,
    step_seconds,
    unique_experts,
)

# In the order in which they are put in place: of two hooks on one name, the later one is the outer.
ROWS: tuple[Row, ...] = (
    mla_verify.ROW,
    step_seconds.ROW,
    accepted_tokens.ROW,
    adaptive_costs.ROW,
    lossy_expert_budget.ROW,
    unique_experts.ROW,
    capture_states.ROW,
    spec_tokens_details.ROW,
    self_check.ROW,
)
