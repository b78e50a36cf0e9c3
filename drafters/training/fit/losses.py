"""The loss of a batch, by document; speculators' own loss functions and weights."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from speculators.losses import compound_loss, exp_loss_decay
from speculators.models.eagle3 import Eagle3DraftModel

from k25serve.drafters.training.fit.chain import Chain
from k25serve.drafters.training.fit.packed import Packed


@dataclass(frozen=True)
class StepLosses:
    """total []: what is minimised. [steps]: loss, decayed; wanted, how many words; correct, right first choices."""

    total: torch.Tensor
    loss: torch.Tensor
    correct: torch.Tensor
    wanted: torch.Tensor


def chain_losses(
    drafter: Eagle3DraftModel, packed: Packed, steps: int, loss_config: Any, decay: float, count: bool = False
) -> StepLosses:
    """Each draft step against the target's distribution over the draft vocabulary, true words fed (training-time test).

    count: also count right first choices.
    """
    places = packed.wanted.nonzero()[:, 0]
    row = torch.cumsum(packed.wanted, 0) - 1  # position -> row of `targets`
    with torch.no_grad():
        targets = drafter.verifier_lm_head(drafter.verifier_norm(packed.last[places]))
        best = targets.argmax(-1) if count else None
    chain, losses, correct, wanted = Chain(drafter, packed), [], [], []
    for step in range(steps):
        states, chosen = chain.step(packed.tokens(step)), packed.at(step)
        rows = row[packed.bases[chosen] + step]
        logits = drafter.lm_head(drafter.norm(states[chosen]))
        mask = torch.ones(1, len(rows), dtype=torch.bool, device=rows.device)
        loss, _ = compound_loss(
            logits[None],
            targets[rows][None],
            mask,
            torch.full(mask.shape, step, device=rows.device),
            loss_config=loss_config,
            decay_fn=partial(exp_loss_decay, gamma=decay),
        )
        losses.append(loss)
        wanted.append(torch.tensor(float(len(rows)), device=rows.device))
        correct.append((logits.argmax(-1) == best[rows]).float().sum() if best is not None else wanted[-1] * 0)
    by_step = torch.stack(losses)
    return StepLosses(by_step.sum(), by_step.detach(), torch.stack(correct), torch.stack(wanted))
