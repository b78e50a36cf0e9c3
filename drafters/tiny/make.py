"""Makes the tiny target and its drafter: texts, tokenizer, target, vision tower, drafter, measurement, export.

python -m k25serve.drafters.tiny.make --out DIR --seed 0
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny.acceptance import merge, simulate
from k25serve.drafters.tiny.answers import answer_all
from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.dataset import Dataset, Encoder
from k25serve.drafters.tiny.draft_vocab import count_tokens, draft_maps
from k25serve.drafters.tiny.drafter import DRAFT_CONFIG, DRAFT_VOCAB_SIZE, Drafter
from k25serve.drafters.tiny.export import export_drafter, export_target, special_ids
from k25serve.drafters.tiny.held_out import pick, write_held_out
from k25serve.drafters.tiny.load import load_drafter, load_text_model, load_vision_model
from k25serve.drafters.tiny.provenance import machine, versions, write_provenance
from k25serve.drafters.tiny.regenerate import regenerate
from k25serve.drafters.tiny.target import build_target, use_dense_experts
from k25serve.drafters.tiny.texts import Texts, prepare
from k25serve.drafters.tiny.tokenizer import VOCAB_SIZE
from k25serve.drafters.tiny.train_drafter import DrafterOptions, evaluate_drafter, train_drafter
from k25serve.drafters.tiny.train_target import TargetOptions, evaluate, train_target
from k25serve.drafters.tiny.train_vision import VisionOptions, train_vision
from k25serve.drafters.tiny.vision import VisionModel
from k25serve.drafters.training.fit.walk import Walked

MEASURED = {"code": 12, "explain": 3, "arguments": 3, "tool": 4, "sum": 2}  # held-out chats for acceptance


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m k25serve.drafters.tiny.make",
        description="Make the tiny Kimi-K2.5-shaped target and its EAGLE-3 drafter from the Python standard library's "
        "source. Writes DIR/target, DIR/drafter and DIR/held_out. The defaults want a GPU; on a CPU lower the steps.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, required=True, default=argparse.SUPPRESS, metavar="DIR", help="where the three folders go"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the drawn chats, the initial weights and every order")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=device, help="where to train")
    parser.add_argument("--steps", type=int, default=2800, help="optimizer steps of the target")
    parser.add_argument("--vision-steps", type=int, default=300, help="optimizer steps of the vision tower")
    parser.add_argument("--draft-steps", type=int, default=900, help="optimizer steps of the drafter")
    parser.add_argument("--tokens-per-step", type=int, default=65536, help="places in a batch, padding included")
    parser.add_argument("--regenerate", type=int, default=3000, help="chats that the target answers for the drafter")
    parser.add_argument("--generate-batch", type=int, default=1500, help="chats answered at a time")
    parser.add_argument("--answer-tokens", type=int, default=256, help="where the target's answers are cut")
    parser.add_argument("--files", type=int, help="read only so many files (smoke runs)")
    parser.add_argument("--chats", type=int, help="keep only so many code chats (smoke runs)")
    parser.add_argument("--keep-target", action="store_true", help="train only a drafter, for the target in DIR")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    options = parse(argv)
    started, device = time.monotonic(), torch.device(options.device)
    target, drafter = options.out / "target", options.out / "drafter"
    texts = prepare(target, options.seed, options.files, options.chats, options.tokens_per_step, options.keep_target)
    print(f"[texts] {texts.statistics()} | {time.monotonic() - started:.0f} s gone", flush=True)
    record: dict[str, Any] = {
        "command": " ".join(["python -m k25serve.drafters.tiny.make", *argv]),
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
        "versions": versions(),
        "machine": machine(device),
        "texts": texts.statistics(),
    }
    if not options.keep_target:
        write_provenance(target, record | {"target": make_target(texts, options, device)})
    write_provenance(drafter, record | {"drafter": make_drafter(texts, options, device)})
    print(f"[done] {options.out} | {time.monotonic() - started:.0f} s gone", flush=True)


def make_target(texts: Texts, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Train the language model and the vision tower, write the folder; returns its measurements."""
    torch.manual_seed(options.seed)
    model, vision = build_target().to(device), VisionModel().to(device)
    data = Dataset(texts.encoder.pad)
    data.extend(texts.train_raw)
    data.extend(texts.train_chats)
    chosen = TargetOptions(options.steps, options.tokens_per_step, seed=options.seed)
    trained = train_target(model, data, chosen, device)
    folder = options.out / "target"
    export_target(model, vision, texts.tokenizer, folder)
    model = frozen_target(folder, device)
    losses = {
        name: evaluate(model, part, options.tokens_per_step, device)
        for name, part in (("held_out_code", texts.held_raw), ("held_out_chats", texts.held))
    }
    print(f"[target] {losses}", flush=True)
    vision_options = VisionOptions(options.vision_steps, seed=options.seed)
    seen = train_vision(vision, model, texts.encoder, vision_options, device)
    export_target(model, vision, texts.tokenizer, folder)
    sizes = {
        "language": model.num_parameters(),
        "vision": sum(p.numel() for p in load_vision_model(folder).parameters()),
    }
    return {
        "parameters": sizes,
        "training": asdict(chosen) | trained,
        "loss": losses,
        "vision": asdict(vision_options) | seen,
    }


def make_drafter(texts: Texts, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Train the drafter for the target in the output folder, write its folder; returns its measurements."""
    torch.manual_seed(options.seed + 1)
    model = frozen_target(options.out / "target", device)
    answered = answer_chats(texts, options, device)
    data = Dataset(texts.encoder.pad)
    data.extend(texts.train_chats)
    for _ in range(max(1, texts.train_chats.tokens // max(1, answered.tokens))):
        data.extend(answered)
    drafter = Drafter(DRAFT_CONFIG).to(device)
    counted = [row for rows in data.rows.values() for row in rows]
    always = special_ids(texts.tokenizer).values()
    d2t, t2d = draft_maps(count_tokens(counted, VOCAB_SIZE), always, DRAFT_VOCAB_SIZE)
    drafter.d2t, drafter.t2d = d2t.to(device), t2d.to(device)
    chosen = DrafterOptions(options.draft_steps, options.tokens_per_step, seed=options.seed)
    trained = train_drafter(drafter, model, data, chosen, device)
    held = evaluate_drafter(drafter, model, texts.held, chosen, device)
    export_drafter(drafter, options.out / "drafter")
    chats = pick(texts.held_chats, MEASURED)
    write_held_out(chats, options.out / "held_out" / "chats.json")
    accepted = measure(options.out, texts.encoder, chats, options.answer_tokens, device)
    print(f"[drafter] held-out {held}, accept_length {accepted.accept_length:.3f} {accepted.histogram}", flush=True)
    return {
        "parameters": sum(p.numel() for p in drafter.parameters()),
        "training": asdict(chosen) | trained,
        "regenerated_tokens": answered.loss_tokens,
        "held_out": held,
        "acceptance": {"steps": 3, "histogram": accepted.histogram, "accept_length": accepted.accept_length},
    }


def answer_chats(texts: Texts, options: argparse.Namespace, device: torch.device) -> Dataset:
    """The target's answers to the first chats of the mixture; in bf16 on a GPU, where it is quicker."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = use_dense_experts(load_text_model(dtype, options.out / "target")).to(device)
    chats = texts.chats[: options.regenerate]
    return regenerate(model, texts.encoder, chats, options.generate_batch, options.answer_tokens, options.seed)


def measure(out: Path, encoder: Encoder, chats: Sequence[Chat], answer_tokens: int, device: torch.device) -> Walked:
    """Greedy acceptance of the written pair, in fp32, over the chats' prompts."""
    model, drafter = frozen_target(out / "target", device), load_drafter(out / "drafter").to(device)
    prompts = [encoder.prompt_ids(chat) for chat in chats]
    answers = answer_all(model, prompts, (encoder.end, encoder.eos), encoder.pad, answer_tokens)
    return merge([simulate(drafter, model, p, a) for p, a in zip(prompts, answers, strict=True)])


def frozen_target(folder: Path, device: torch.device) -> DeepseekV3ForCausalLM:
    """The target as written (rounded to bf16), in fp32 on `device`, without gradients."""
    model = use_dense_experts(load_text_model(folder=folder)).to(device)
    return model.requires_grad_(False)


if __name__ == "__main__":
    main(sys.argv[1:])
