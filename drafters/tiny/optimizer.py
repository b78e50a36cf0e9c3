"""AdamW with a warm-up and a cosine down to a tenth, the same for both trainings."""

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

WEIGHT_DECAY = 0.1
GRADIENT_CLIP = 1.0


def make_optimizer(
    model: nn.Module, learning_rate: float, steps: int
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LambdaLR]:
    """Optimizer over the parameters that need gradients (matrices decay, vectors don't), and its schedule by step."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in wanted if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in wanted if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=wanted[0].is_cuda)
    warmup = max(1, min(200, steps // 10))

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    return optimizer, LambdaLR(optimizer, factor)


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bf16 autocast on CUDA, nothing elsewhere; weights and optimizer stay fp32."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
