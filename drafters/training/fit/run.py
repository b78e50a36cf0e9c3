"""The step itself: a run folder in, a trained drafter in speculators' format out."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from k25serve.drafters.checkpoint import Target
from k25serve.drafters.training.fit.begin import begin_scratch
from k25serve.drafters.training.fit.begun import hash_inputs, settle
from k25serve.drafters.training.fit.build import DENSE, FLEX, build, draft_config
from k25serve.drafters.training.fit.captured import check_captured
from k25serve.drafters.training.fit.final import FINAL, write_final
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.fit.place import Place, take_place
from k25serve.drafters.training.fit.result import write_result
from k25serve.drafters.training.fit.states import States
from k25serve.drafters.training.fit.trainer import Trainer
from k25serve.drafters.training.fit.verifier import read_verifier
from k25serve.drafters.training.fit.vocabulary import read_vocabulary
from k25serve.drafters.training.fit.warm import begin_warm
from k25serve.drafters.training.progress import Progress

SPLITS = ("train", "held_out")


@dataclass(frozen=True)
class Fitted:
    """final: speculators' checkpoint folder; curves: a line an evaluation."""

    final: Path
    steps: int
    tokens: int
    seconds: float
    curves: list[dict[str, Any]]


def fit(options: FitOptions, run: Path, target: Path, out: Path, progress: Progress) -> Fitted:
    """Train on run/{data,vocab,hidden} for the target in its folder; goes on where `out` holds a begun training.

    Raises TrainingError or CheckpointError for what the user can mend.
    """
    with take_place(options) as place:
        return _fit(options, run, Target(target), out, progress, place)


def _fit(options: FitOptions, run: Path, target: Target, out: Path, progress: Progress, place: Place) -> Fitted:
    torch.manual_seed(options.seed)
    vocabulary = read_vocabulary(run / "vocab" / "vocab.safetensors", target.size("vocab_size"))
    verifier = read_verifier(target, vocabulary.hot_ids)
    margin = max(options.ttt_steps, options.draft_steps)
    train, held_out = (
        States(run, split, vocabulary.t2d, verifier.hidden_size, options.tokens_per_batch, margin) for split in SPLITS
    )
    captured = check_captured(run, {"train": len(train), "held_out": len(held_out)}, target, options)
    if place.first:
        settle(out, options, hash_inputs(run, target))
    place.wait()
    attention = FLEX if place.flex else DENSE
    config = draft_config(options, verifier, len(vocabulary.d2t), captured.aux_layers, attention)
    drafter = build(config, verifier, vocabulary)
    begin_scratch(drafter, verifier, options.init)
    warmed = None
    if options.init.drafter is not None:
        layer, layers = options.draft_layer, captured.aux_layers
        warmed = begin_warm(drafter, options.init.drafter, layer, layers, verifier, vocabulary)
    drafter.lm_head.weight.requires_grad_(options.train_head)
    trainer = Trainer(drafter, train, held_out, options, place, out)
    trainer.run(progress)
    trainer.take_best()
    done = trainer.done
    if place.first:
        write_final(drafter, out / FINAL)
        result = {
            **asdict(done),
            "tokens": done.tokens * place.world,
            "processes": place.world,
            "parameters": sum(p.numel() for p in drafter.parameters() if p.requires_grad),
            "warm": None if warmed is None else asdict(warmed),
            "held_out": trainer.chosen["held_out"],
            "sglang": list(captured.sglang),
        }
        write_result(out, result, place)
    place.wait()
    return Fitted(out / FINAL, done.step, done.tokens * place.world, done.seconds, trainer.curves)
