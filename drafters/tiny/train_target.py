"""Trains the target on raw code and chats, with the routers balanced without an auxiliary loss."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny.dataset import Batch, Dataset
from k25serve.drafters.tiny.optimizer import GRADIENT_CLIP, make_optimizer, mixed_precision
from k25serve.drafters.tiny.progress import Progress
from k25serve.drafters.tiny.target import moe_layers

BALANCE_RATE = 1e-3  # DeepSeek-V3's speed of the bias update
BALANCE_SHARE = 0.9  # of the steps; then the biases rest


@dataclass(frozen=True)
class TargetOptions:
    """steps: optimizer steps; tokens_per_step: places in a batch, padding included."""

    steps: int
    tokens_per_step: int
    learning_rate: float = 3e-3
    seed: int = 0


class Balancer:
    """Moves an expert's selection bias up when it got fewer tokens than the mean, else down (DeepSeek-V3, 2.1.2)."""

    def __init__(self, model: DeepseekV3ForCausalLM) -> None:
        self.layers = moe_layers(model)
        self.valid: torch.Tensor | None = None  # bool [tokens]: not padding
        self.load: dict[int, torch.Tensor] = {}
        self.handles = [moe.experts.register_forward_pre_hook(self._count) for moe in self.layers]

    def _count(self, experts: Any, arguments: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
        chosen = F.one_hot(arguments[1], experts.num_experts).sum(1).float()  # [tokens, experts]
        self.load[id(experts)] = chosen.sum(0) if self.valid is None else self.valid.float() @ chosen

    def update(self) -> None:
        for moe in self.layers:
            load = self.load[id(moe.experts)]
            moe.gate.e_score_correction_bias += BALANCE_RATE * torch.sign(load.mean() - load)

    def imbalance(self) -> float:
        """The fullest expert's load over the mean, worst layer, in the last batch."""
        return max(float(load.max() / load.mean()) for load in self.load.values())

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def train_target(
    model: DeepseekV3ForCausalLM, data: Dataset, options: TargetOptions, device: torch.device
) -> dict[str, float]:
    """Train in place; `model` must be on `device`. Returns the last smoothed loss, tokens seen and imbalance."""
    optimizer, schedule = make_optimizer(model, options.learning_rate, options.steps)
    balancer, progress = Balancer(model), Progress("target", options.steps)
    smooth, tokens = torch.zeros((), device=device), 0
    model.train()
    for step, batch in zip(range(options.steps), endless(data, options.tokens_per_step, options.seed), strict=False):
        ids, loss_mask = batch.ids.to(device), batch.loss.to(device)
        balancer.valid = (ids != data.pad).flatten()
        with mixed_precision(device):
            loss = next_token_loss(model(ids, use_cache=False).logits, ids, loss_mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_CLIP)
        optimizer.step()
        schedule.step()
        if step < BALANCE_SHARE * options.steps:
            balancer.update()
        tokens += int(batch.ids.ne(data.pad).sum())
        smooth = smooth.lerp(loss.detach(), max(0.02, 1 / (step + 1)))
        if step % 20 == 19 or step + 1 == options.steps:
            progress.step(
                step + 1, f"loss {smooth.item():.3f}, {tokens / 1e6:.1f} M tokens, load {balancer.imbalance():.2f}"
            )
    result = {"loss": smooth.item(), "tokens": float(tokens), "expert_imbalance": balancer.imbalance()}
    balancer.close()
    model.eval()
    return result


@torch.no_grad()
def evaluate(model: DeepseekV3ForCausalLM, data: Dataset, tokens_per_batch: int, device: torch.device) -> float:
    """Mean negative log-likelihood in nats over the places that count."""
    total, count = 0.0, 0
    for batch in data.batches(tokens_per_batch, seed=0):
        ids, loss_mask = batch.ids.to(device), batch.loss.to(device)
        places = int(loss_mask[:, 1:].sum())
        with mixed_precision(device):
            total += next_token_loss(model(ids, use_cache=False).logits, ids, loss_mask).item() * places
        count += places
    return total / max(1, count)


def next_token_loss(logits: torch.Tensor, ids: torch.Tensor, loss_mask: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits [rows, length, V] against the next id, mean over the places whose next id counts."""
    targets = ids[:, 1:].masked_fill(~loss_mask[:, 1:], -100)
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), targets.flatten(), ignore_index=-100)


def endless(data: Dataset, tokens_per_batch: int, seed: int) -> Iterator[Batch]:
    """Epoch after epoch, each in its own order."""
    epoch = 0
    while True:
        yield from data.batches(tokens_per_batch, seed=seed * 1000 + epoch)
        epoch += 1
