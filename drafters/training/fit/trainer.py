"""The training loop: a step, an evaluation now and then, a checkpoint now and then.

Why not speculators' Trainer: it takes the first accelerator and fails on a machine without one, its checkpoints round
weights and moments to bf16, so that a resumed run is another one, and it skips a batch whose states are not there.
"""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from speculators.losses import resolve_loss_config
from speculators.models.eagle3 import Eagle3DraftModel
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit import keep
from k25serve.drafters.training.fit.batches import Order, load
from k25serve.drafters.training.fit.curves import FILE, write_curves
from k25serve.drafters.training.fit.evaluate import evaluate
from k25serve.drafters.training.fit.losses import chain_losses
from k25serve.drafters.training.fit.optimizer import make_optimizers, rate_factor, set_rate
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.fit.packed import pack
from k25serve.drafters.training.fit.place import Place
from k25serve.drafters.training.fit.states import States
from k25serve.drafters.training.progress import Progress

CHECKPOINTS, BEST = "checkpoints", "best"


class Step(nn.Module):
    """A batch's loss as a module, which is what DistributedDataParallel wants."""

    def __init__(self, drafter: Eagle3DraftModel, options: FitOptions, loss_config: Any, flex: bool) -> None:
        super().__init__()
        self.drafter, self._options, self._loss_config, self._flex = drafter, options, loss_config, flex

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """[] The sum over the draft steps, each the mean over its words."""
        steps, decay = self._options.ttt_steps, self._options.step_decay
        if not self._flex:
            return chain_losses(self.drafter, pack(batch, steps), steps, self._loss_config, decay).total
        inputs = {key: value for key, value in batch.items() if key != "written"}
        _, loss, _ = self.drafter(**inputs, ttt_steps=steps, ttt_step_loss_decay=decay, loss_config=self._loss_config)
        return loss  # type: ignore[no-any-return]


@dataclass
class Done:
    """How far training is. place: batches of this epoch; seconds: of all runs together."""

    step: int = 0
    epoch: int = 0
    place: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Trainer:
    """Trains `drafter` in place. Checkpoints and curves.jsonl lie in `out`; where some do, it goes on from there."""

    def __init__(
        self, drafter: Eagle3DraftModel, train: States, held_out: States, options: FitOptions, place: Place, out: Path
    ) -> None:
        self._options, self._place, self._out = options, place, out
        self._train, self._held_out = train, held_out
        self._drafter = drafter.to(place.device)
        # speculators' forward is compiled, and torch 2.11's compiler fails on its fused losses' two tuned kernels.
        fused = place.device.type == "cuda" and not place.flex
        self._loss_config = resolve_loss_config(_loss(options), "fused" if fused else "eager")
        self._optimizers = make_optimizers(drafter, options.optimizer)
        self._order = Order(train.approx_lengths, options, place)
        step = Step(drafter, options, self._loss_config, place.flex)
        self._step = step if place.world == 1 else DistributedDataParallel(step)
        self._loss, self._count = torch.zeros((), dtype=torch.float64), 0  # since the last evaluation
        self.curves: list[dict[str, Any]] = []
        self.done = Done()
        self._resume()
        self._resumed, self._before = time.monotonic(), self.done.seconds
        self._saved_at = self._resumed

    def run(self, progress: Progress) -> None:
        """To the end. Raises TrainingError where a loss or a gradient is no number."""
        progress.start("fit, per mille", 1000)
        told = 0
        self._drafter.train()
        share = self._share()
        while share < 1:
            batches = self._order.epoch(self.done.epoch)[self.done.place :]
            limit, workers = self._options.tokens_per_batch, self._options.loader_workers
            for rows, batch in zip(batches, load(self._train, batches, limit, self._place, workers), strict=False):
                self._learn(rows, batch, share)
                share = self._share()
                self._now_and_then(share)
                progress.advance(int(1000 * share) - told)
                told = int(1000 * share)
                if share >= 1:
                    break

    def _learn(self, rows: list[int], batch: dict[str, torch.Tensor], share: float) -> None:
        set_rate(self._optimizers, self._options.optimizer, share)
        with self._place.autocast():
            loss = self._step(batch)
        if not bool(loss.isfinite()):
            raise self._no_number("the loss", rows)
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        loss.backward()
        try:
            torch.nn.utils.clip_grad_norm_(
                [p for p in self._drafter.parameters() if p.requires_grad],
                self._options.optimizer.gradient_clip,
                error_if_nonfinite=True,
            )
        except RuntimeError as error:
            if "non-finite" not in str(error):
                raise
            raise self._no_number("the gradient", rows) from None
        for optimizer in self._optimizers:
            optimizer.step()
        done = self.done
        done.step, done.place = done.step + 1, done.place + 1
        if done.place == len(self._order.epoch(done.epoch)):
            done.epoch, done.place = done.epoch + 1, 0
        done.tokens += sum(min(self._train.approx_lengths[row], self._options.tokens_per_batch) for row in rows)
        self._loss, self._count = self._loss + loss.detach().double().cpu(), self._count + 1

    def _share(self) -> float:
        """How much of the training is behind, 0 to 1: the first limit to be reached counts."""
        options, done = self._options, self.done
        done.seconds = self._before + time.monotonic() - self._resumed
        shares = [0.0]
        if options.max_steps is not None:
            shares.append(done.step / options.max_steps)
        if options.epochs is not None:
            shares.append((done.epoch + done.place / len(self._order.epoch(done.epoch))) / options.epochs)
        if options.max_minutes is not None:
            shares.append(self._place.told_by_first(done.seconds / 60 / options.max_minutes))
        return min(1.0, max(shares))

    def _now_and_then(self, share: float) -> None:
        options, end = self._options, share >= 1
        if end or self.done.step % options.evaluate_every == 0:
            self._evaluate(share)
        every, seconds = options.checkpoint_every_steps, options.checkpoint_every_seconds
        due = every is not None and self.done.step % every == 0
        if seconds is not None and self._place.first:
            due = due or time.monotonic() - self._saved_at >= seconds
        if end or self._place.told_by_first(float(due)):
            self._save()

    def _evaluate(self, share: float) -> None:
        found = evaluate(self._drafter, self._held_out, self._options, self._loss_config, self._place)
        done, best = self.done, max((line["held_out"]["accept_length"] for line in self.curves), default=0.0)
        line = {
            "step": done.step,
            "epoch": done.epoch,
            "tokens": done.tokens * self._place.world,
            "seconds": round(done.seconds, 1),
            "learning_rate": self._options.optimizer.learning_rate * rate_factor(self._options.optimizer, share),
            "train_loss": float(self._loss) / max(1, self._count),
            "held_out": found,
        }
        self.curves.append(line)
        self._loss, self._count = torch.zeros((), dtype=torch.float64), 0
        if not self._place.first:
            return
        write_curves(self._out / FILE, self.curves)
        if self._options.final == "best" and found["accept_length"] > best:
            keep.save(self._out / BEST, done.step, {"drafter": self._weights()}, kept=1)

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: p.detach() for name, p in self._drafter.named_parameters() if p.requires_grad}

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if self._place.first:
            state = {
                "drafter": self._weights(),
                "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
                "done": asdict(self.done),
                "loss": self._loss,
                "count": self._count,
                "curves": self.curves,
                "random": torch.get_rng_state(),
            }
            keep.save(self._out / CHECKPOINTS, self.done.step, state)
        self._place.wait()

    def _resume(self) -> None:
        state = keep.load(self._out / CHECKPOINTS)
        if state is None:
            return
        self._drafter.load_state_dict(state["drafter"], strict=False)
        for optimizer, stored in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        self.done, self.curves = Done(**state["done"]), state["curves"]
        self._loss, self._count = state["loss"], state["count"]
        torch.set_rng_state(state["random"])

    @property
    def chosen(self) -> dict[str, Any]:
        """The evaluation of the weights that become final."""
        if self._options.final == "last":
            return self.curves[-1]
        return max(self.curves, key=lambda line: line["held_out"]["accept_length"])

    def take_best(self) -> None:
        """The weights with the best accept_length on held_out become the drafter's, where the options ask for them."""
        best = keep.load(self._out / BEST) if self._options.final == "best" else None
        if best is not None:
            self._drafter.load_state_dict(best["drafter"], strict=False)

    def _no_number(self, what: str, rows: list[int]) -> TrainingError:
        names = ", ".join(f"hs_{row}.safetensors" for row in rows[:8])
        more = f" and {len(rows) - 8} more" if len(rows) > 8 else ""
        return TrainingError(
            f"{what} is no number (NaN or infinite) at step {self.done.step} on {self._train.folder}/{names}{more}; "
            "capture these anew if their states are wrong, else lower optimizer.learning_rate"
        )


def _loss(options: FitOptions) -> str:
    return options.loss if isinstance(options.loss, str) else json.dumps(options.loss)
