"""Routing of a verify step's tokens to experts: how many experts it touches, and how to touch fewer.

Plain torch of fixed shape: no host reads, so that it can be captured in a CUDA graph.
"""

from k25serve.patches.kernels.moe_verify.budget import budgeted_topk
from k25serve.patches.kernels.moe_verify.unique import unique_experts

__all__ = ["budgeted_topk", "unique_experts"]
