"""Trains the drafter on the frozen target's hidden states with EAGLE-3's training-time test."""

from dataclasses import dataclass

import torch
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny.dataset import Dataset
from k25serve.drafters.tiny.drafter import AUX_LAYERS, Drafter, shift_left
from k25serve.drafters.tiny.optimizer import GRADIENT_CLIP, make_optimizer, mixed_precision
from k25serve.drafters.tiny.progress import Progress
from k25serve.drafters.tiny.train_target import endless

STEP_WEIGHT = 0.8  # of each draft step's loss against the one before (EAGLE-3)


@dataclass(frozen=True)
class DrafterOptions:
    """unroll: draft steps in training."""

    steps: int
    tokens_per_step: int
    unroll: int = 4
    learning_rate: float = 2e-3
    seed: int = 0


@torch.no_grad()
def target_states(model: DeepseekV3ForCausalLM, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The captured states [rows, length, 3H] and the logits [rows, length, V] of the target.

    transformers' hidden_states[i] is the input of layer i, which is what SGLang captures for the id i.
    """
    output = model(ids, use_cache=False, output_hidden_states=True)
    return torch.cat([output.hidden_states[i] for i in AUX_LAYERS], dim=-1), output.logits


def train_drafter(
    drafter: Drafter, model: DeepseekV3ForCausalLM, data: Dataset, options: DrafterOptions, device: torch.device
) -> dict[str, float]:
    """Train in place; both models must be on `device`. Returns the last smoothed loss and the tokens seen."""
    optimizer, schedule = make_optimizer(drafter, options.learning_rate, options.steps)
    progress, smooth, tokens = Progress("drafter", options.steps), torch.zeros((), device=device), 0
    embedding = model.model.embed_tokens.weight.detach()
    weights = torch.tensor([STEP_WEIGHT**j for j in range(options.unroll)], device=device)
    drafter.train()
    for step, batch in zip(range(options.steps), endless(data, options.tokens_per_step, options.seed), strict=False):
        ids, loss_mask = batch.ids.to(device), batch.loss.to(device)
        with mixed_precision(device):
            aux, target_logits = target_states(model, ids)
            logits = drafter.unroll(aux, ids, embedding, options.unroll, teacher=True)
        loss = (draft_losses(drafter, logits, target_logits, loss_mask)[0] * weights).sum() / weights.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), GRADIENT_CLIP)
        optimizer.step()
        schedule.step()
        tokens += int(batch.ids.ne(data.pad).sum())
        smooth = smooth.lerp(loss.detach(), max(0.02, 1 / (step + 1)))
        if step % 20 == 19 or step + 1 == options.steps:
            progress.step(step + 1, f"loss {smooth.item():.3f}, {tokens / 1e6:.1f} M tokens")
    drafter.eval()
    return {"loss": smooth.item(), "tokens": float(tokens)}


def draft_losses(
    drafter: Drafter, logits: list[torch.Tensor], target_logits: torch.Tensor, loss_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Per draft step: the soft cross-entropy and the share of places where drafter and target agree on the best token.

    The target's distribution is renormalised over the draft vocabulary. A place counts when the assistant writes the
    drafted token and the target's best token is in the draft vocabulary.
    """
    losses, hits = [], []
    for j, drafted in enumerate(logits):
        wanted = shift_left(target_logits, j + 1)
        best = wanted.argmax(-1)
        mask = (shift_left(loss_mask, j + 2) & drafter.t2d[best]).float()
        count = mask.sum().clamp(min=1)
        probabilities = wanted[..., drafter.hot_ids].float().softmax(-1)
        cross_entropy = -(probabilities * drafted.float().log_softmax(-1)).sum(-1)
        losses.append((cross_entropy * mask).sum() / count)
        hits.append(((drafter.hot_ids[drafted.argmax(-1)] == best) * mask).sum() / count)
    return torch.stack(losses), torch.stack(hits)


@torch.no_grad()
def evaluate_drafter(
    drafter: Drafter, model: DeepseekV3ForCausalLM, data: Dataset, options: DrafterOptions, device: torch.device
) -> dict[str, list[float]]:
    """Mean loss and agreement per draft step, teacher-forced, over `data`."""
    embedding = model.model.embed_tokens.weight
    losses, hits, count = torch.zeros(options.unroll), torch.zeros(options.unroll), 0
    for batch in data.batches(options.tokens_per_step, seed=0):
        ids, loss_mask = batch.ids.to(device), batch.loss.to(device)
        places = int(loss_mask.sum())
        with mixed_precision(device):
            aux, target_logits = target_states(model, ids)
            logits = drafter.unroll(aux, ids, embedding, options.unroll, teacher=True)
        loss, hit = draft_losses(drafter, logits, target_logits, loss_mask)
        losses += loss.cpu() * places
        hits += hit.cpu() * places
        count += places
    return {"loss": (losses / max(1, count)).tolist(), "accuracy": (hits / max(1, count)).tolist()}
