"""How many tokens to draft, by what a step costs: expected tokens per second decide, no drafts being one of the arms.

Plain Python, in virtual time: every quantity comes from the cost table and from what was accepted, so that all ranks of
an engine decide alike without talking to each other.
"""

from k25serve.patches.adaptive.costs import CostError, StepCosts, read_costs
from k25serve.patches.adaptive.policy import Choice, Policy

__all__ = ["Choice", "CostError", "Policy", "StepCosts", "read_costs"]
