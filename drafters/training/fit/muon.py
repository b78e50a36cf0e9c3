"""Muon (Jordan and others, 2024): momentum whose singular values are made alike before the step.

Not torch's: that one multiplies in bf16, which a CPU without bf16 units does at an eighth of its fp32 speed.
"""

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import nn

ROUNDS = 5
# The quintic a x + b x^3 + c x^5 by which singular values in (0, 1] go to about 1 in five rounds; Jordan's choice.
A, B, C = 3.4445, -4.7750, 2.0315
# The step's root mean square against AdamW's, so that both take the same learning rate: Moonshot's Moonlight report,
# arXiv 2502.16982, section 2.2.
LIKE_ADAMW = 0.2


class Muon(torch.optim.Optimizer):
    """For matrices. Nesterov momentum, decoupled weight decay."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        super().__init__(list(matrices), {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step. The closure that torch's interface allows is not used."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._step(matrix, matrix.grad, group)
        return None

    def _step(self, matrix: nn.Parameter, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        mean = state["momentum"].lerp_(gradient, 1 - group["momentum"])
        update = orthogonal(gradient.lerp(mean, group["momentum"]))
        matrix.mul_(1 - group["lr"] * group["weight_decay"])
        matrix.add_(update, alpha=-group["lr"] * LIKE_ADAMW * max(matrix.shape) ** 0.5)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The nearest matrix with orthonormal rows or columns, roughly (singular values 0.7 to 1.2), by Newton-Schulz."""
    x = matrix if matrix.dtype == torch.float32 and matrix.device.type == "cpu" else matrix.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.T
        x = A * x + (B * square + C * square @ square) @ x
    found: torch.Tensor = (x.T if tall else x).to(matrix.dtype)
    return found
