"""Makes the tiny target: texts, tokenizer, language model, vision tower, export, and the held-out prompts.

python -m k25serve.drafters.tiny.make --out DIR --seed 0

Its drafter is trained by the product's own pipeline: k25serve drafter train run --config packaged:tiny-gpu --out RUN
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

from k25serve.drafters.tiny.dataset import Dataset
from k25serve.drafters.tiny.export import export_target
from k25serve.drafters.tiny.held_out import pick, write_held_out
from k25serve.drafters.tiny.load import load_text_model, load_vision_model
from k25serve.drafters.tiny.provenance import machine, versions, write_provenance
from k25serve.drafters.tiny.target import build_target, use_dense_experts
from k25serve.drafters.tiny.texts import Texts, prepare
from k25serve.drafters.tiny.train_target import TargetOptions, evaluate, train_target
from k25serve.drafters.tiny.train_vision import VisionOptions, train_vision
from k25serve.drafters.tiny.vision import VisionModel

MEASURED = {"code": 12, "explain": 3, "arguments": 3, "tool": 4, "sum": 2}  # held-out chats for acceptance


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m k25serve.drafters.tiny.make",
        description="Make the tiny Kimi-K2.5-shaped target from the Python standard library's source. "
        "Writes DIR/target and DIR/held_out. The defaults want a GPU; on a CPU lower the steps. Its drafter is made by "
        "`k25serve drafter train run --config packaged:tiny-gpu`.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, required=True, default=argparse.SUPPRESS, metavar="DIR", help="where the two folders go"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the drawn chats, the initial weights and every order")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=device, help="where to train")
    parser.add_argument("--steps", type=int, default=2800, help="optimizer steps of the target")
    parser.add_argument("--vision-steps", type=int, default=300, help="optimizer steps of the vision tower")
    parser.add_argument("--tokens-per-step", type=int, default=65536, help="places in a batch, padding included")
    parser.add_argument("--files", type=int, help="read only so many files (smoke runs)")
    parser.add_argument("--chats", type=int, help="keep only so many code chats (smoke runs)")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    options = parse(argv)
    started, device = time.monotonic(), torch.device(options.device)
    target = options.out / "target"
    texts = prepare(target, options.seed, options.files, options.chats, options.tokens_per_step)
    print(f"[texts] {texts.statistics()} | {time.monotonic() - started:.0f} s gone", flush=True)
    record: dict[str, Any] = {
        "command": " ".join(["python -m k25serve.drafters.tiny.make", *argv]),
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
        "versions": versions(),
        "machine": machine(device),
        "texts": texts.statistics(),
    }
    write_provenance(target, record | {"target": make_target(texts, options, device)})
    write_held_out(pick(texts.held_chats, MEASURED), options.out / "held_out" / "chats.json")
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


def frozen_target(folder: Path, device: torch.device) -> DeepseekV3ForCausalLM:
    """The target as written (rounded to bf16), in fp32 on `device`, without gradients."""
    model = use_dense_experts(load_text_model(folder=folder)).to(device)
    return model.requires_grad_(False)


if __name__ == "__main__":
    main(sys.argv[1:])
