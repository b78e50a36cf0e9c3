"""AdamW, or Muon for the matrices inside, and the learning rate by how much of the training is done."""

import math

import torch
from torch import nn

from k25serve.drafters.training.fit.muon import Muon
from k25serve.drafters.training.fit.options import Optimizer


def make_optimizers(model: nn.Module, options: Optimizer) -> list[torch.optim.Optimizer]:
    """Over the parameters that need gradients, in the order of their names; matrices decay, vectors don't."""
    wanted = [(name, p) for name, p in sorted(model.named_parameters()) if p.requires_grad]
    inner = [p for name, p in wanted if p.dim() == 2 and "lm_head" not in name] if options.name == "muon" else []
    taken = {id(p) for p in inner}
    rest = [p for _, p in wanted if id(p) not in taken]
    groups = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    found: list[torch.optim.Optimizer] = [
        torch.optim.AdamW([g for g in groups if g["params"]], options.learning_rate, options.betas, fused=True)
    ]
    if inner:
        found.append(Muon(inner, options.muon_learning_rate or options.learning_rate, options.weight_decay))
    for optimizer in found:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return found


def set_rate(optimizers: list[torch.optim.Optimizer], options: Optimizer, done: float) -> None:
    """done: share of the training that is behind, 0 to 1."""
    factor = rate_factor(options, done)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def rate_factor(options: Optimizer, done: float) -> float:
    """The learning rate as a share of its peak."""
    if done < options.warmup:
        return max(done, 1e-3) / options.warmup
    if options.schedule == "constant":
        return 1.0
    fall = min(1.0, (done - options.warmup) / (1 - options.warmup))
    left = 0.5 * (1 + math.cos(math.pi * fall)) if options.schedule == "cosine" else 1 - fall
    return options.floor + (1 - options.floor) * left
