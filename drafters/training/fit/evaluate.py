"""How good the drafter is on the held-out rows: greedy drafts walked as serving would, and the loss beside it."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from speculators.models.eagle3 import Eagle3DraftModel

from k25serve.drafters.training.fit.batches import in_order, load
from k25serve.drafters.training.fit.chain import Chain
from k25serve.drafters.training.fit.losses import chain_losses
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.fit.packed import Packed, pack
from k25serve.drafters.training.fit.place import Place
from k25serve.drafters.training.fit.states import States
from k25serve.drafters.training.fit.walk import Walked, walk


@torch.no_grad()
def evaluate(
    drafter: Eagle3DraftModel, states: States, options: FitOptions, loss_config: Any, place: Place
) -> dict[str, Any]:
    """accept_length, by position and by label; loss and accuracy by draft step with the true words fed. Over all ranks.

    The text that is drafted is the rows' own: where the target wrote the answers greedily this is what serving with
    greedy decoding accepts, up to the engine's rounding; where somebody else did, it tells how often the drafter says
    that somebody's words.
    """
    drafter.eval()
    labels = sorted(set(states.labels))
    steps, hot_ids = options.draft_steps, drafted_ids(drafter)
    histograms = torch.zeros(len(labels), steps + 1, dtype=torch.float64)
    sums = torch.zeros(3, options.ttt_steps, dtype=torch.float64)
    batches = in_order(states.approx_lengths, options.tokens_per_batch, place.rank, place.world)
    for rows, batch in zip(batches, load(states, batches, None, place) if batches else (), strict=True):
        with place.autocast():
            losses = chain_losses(
                drafter, pack(batch, options.ttt_steps), options.ttt_steps, loss_config, 1.0, count=True
            )
            drafts = draft(drafter, pack(batch, steps, batch["written"][0]), steps, hot_ids)
        sums += torch.stack([losses.loss * losses.wanted, losses.correct, losses.wanted]).double().cpu()
        for row, walked in walks(batch, drafts):
            histograms[labels.index(states.labels[rows[row]])] += torch.tensor(walked.histogram)
    drafter.train()
    loss, correct, wanted = place.summed(sums.to(place.device)).cpu()
    counted = place.summed(histograms.to(place.device)).cpu()
    by_label = {label: Walked(tuple(map(int, row))) for label, row in zip(labels, counted.tolist(), strict=True)}
    total = sum(by_label.values(), Walked((0,) * (steps + 1)))
    return {
        "accept_length": total.accept_length,
        "accepted_by_position": total.by_position,
        "histogram": list(total.histogram),
        "accept_length_by_label": {label: found.accept_length for label, found in by_label.items()},
        "loss": (loss / wanted.clamp(min=1)).tolist(),
        "accuracy": (correct / wanted.clamp(min=1)).tolist(),
    }


def drafted_ids(drafter: Eagle3DraftModel) -> torch.Tensor:
    """[draft_vocab] the target id of each draft id."""
    places = torch.arange(drafter.draft_vocab_size, device=drafter.lm_head.weight.device)
    return places if drafter.d2t is None else places + drafter.d2t


def draft(drafter: Eagle3DraftModel, packed: Packed, steps: int, hot_ids: torch.Tensor) -> torch.Tensor:
    """[N, steps] int64: the greedy draft after each base, its own words fed back."""
    chain, drafts, tokens = Chain(drafter, packed), list[torch.Tensor](), packed.tokens(0)
    for _ in range(steps):
        tokens = hot_ids[drafter.lm_head(drafter.norm(chain.step(tokens))).argmax(-1)]
        drafts.append(tokens)
    return torch.stack(drafts, dim=1)


def walks(batch: dict[str, Any], drafts: torch.Tensor) -> Iterator[tuple[int, Walked]]:
    """The walk along each answer, with the number of its document in the batch."""
    documents, ids, written = (batch[key][0].tolist() for key in ("document_ids", "input_ids", "written"))
    answers: dict[tuple[int, int], list[int]] = defaultdict(list)
    turn = 0
    for place, (document, own) in enumerate(zip(documents, written, strict=True)):
        if document >= 0 and own:
            answers[document, turn].append(place)
        else:
            turn += 1
    rows = iter(drafts.tolist())
    for (document, _), places in answers.items():
        yield document, walk([next(rows) for _ in places], [ids[place] for place in places])
