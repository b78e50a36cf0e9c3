"""Trains the packaged target a little further, on chats in another style: another release of the same model.

python -P -m k25serve.drafters.tiny.further --out FOLDER
"""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.adapters.write import new_folder
from k25serve.drafters.checkpoint.errors import AdaptError, DrafterError, TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.tiny.arguments import OneLineParser, whole

PROGRAM = "python -P -m k25serve.drafters.tiny.further"
ABOUT = """\
Train the packaged target a little further, as one release of a model follows another, and write it as a whole model
folder: config, tokenizer, template, processor, weights, provenance.json with the losses before and after. It is trained
on the packaged training chats in another style (numbered steps of thought, reformatted code, a closing sentence), so it
answers the same questions otherwise. Vision weights and tokenizer stay. The same options give the same weights on the
same machine. About 2 minutes on two CPU cores; nothing is fetched.
"""
HELD_OUT_CHATS = 150  # from code, at most; the drawn kinds come on top
DRAW_SEED = 1000  # the packaged target's chats were drawn with seeds from 0


@dataclass(frozen=True)
class FurtherOptions:
    """steps: optimizer steps; tokens_per_step: places in a batch, padding included; chats: from code, at most.

    files: read only so many of the library, for smoke runs.
    """

    steps: int = 60
    seed: int = 0
    learning_rate: float = 1e-3
    tokens_per_step: int = 4096
    chats: int = 3000
    files: int | None = None


def parse(argv: Sequence[str]) -> tuple[Path, FurtherOptions]:
    """Exits with one line, code 2, where an option is wrong."""
    own = FurtherOptions()
    parser = OneLineParser(prog=PROGRAM, description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument("--steps", type=whole(1), default=own.steps, help="optimizer steps; default %(default)s")
    parser.add_argument("--seed", type=whole(0), default=own.seed, help="of chats and order; default %(default)s")
    parser.add_argument("--chats", type=whole(1), default=own.chats, help="of code, at most; default %(default)s")
    parser.add_argument("--files", type=whole(15), help="read only so many files of the library (smoke runs)")
    given = parser.parse_args(argv)
    return given.out, FurtherOptions(steps=given.steps, seed=given.seed, chats=given.chats, files=given.files)


def further(out: Path, options: FurtherOptions, command: str) -> dict[str, Any]:
    """Write the new target to `out`; returns what provenance.json says of it.

    Raises AdaptError where `out` is not empty, TrainingError where the interpreter ships no sources of its library.
    """
    import torch
    from tokenizers import Tokenizer

    from k25serve.drafters.tiny.corpus import corpus_hash, read_corpus
    from k25serve.drafters.tiny.dataset import Encoder
    from k25serve.drafters.tiny.export import export_target
    from k25serve.drafters.tiny.load import load_text_model, load_tokenizer, load_vision_model
    from k25serve.drafters.tiny.mixture import held_out_chats
    from k25serve.drafters.tiny.provenance import file_hashes, machine, versions, write_provenance
    from k25serve.drafters.tiny.restyle import restyled_chats, restyled_held_out
    from k25serve.drafters.tiny.target import use_dense_experts
    from k25serve.drafters.tiny.train_target import TargetOptions, evaluate, train_target

    started, device, seed = time.monotonic(), torch.device("cpu"), DRAW_SEED + options.seed
    with new_folder(out) as folder:
        try:
            corpus = read_corpus(options.files)
        except FileNotFoundError as error:
            raise TrainingError(str(error)) from None
        encoder = Encoder(load_tokenizer())
        data = encoder.chats(restyled_chats(corpus, seed, options.chats))
        count = min(HELD_OUT_CHATS, options.chats)
        held = {
            "new_style": encoder.chats(restyled_held_out(corpus, seed, count)),
            "old_style": encoder.chats(held_out_chats(corpus, seed, count)),
        }

        def losses() -> dict[str, float]:
            return {name: evaluate(model, part, options.tokens_per_step, device) for name, part in held.items()}

        model = use_dense_experts(load_text_model())
        before = losses()
        chosen = TargetOptions(options.steps, options.tokens_per_step, options.learning_rate, options.seed)
        trained = train_target(model, data, chosen, device)
        export_target(model, load_vision_model(), Tokenizer.from_file(str(TARGET / "tokenizer.json")), folder)
        model = use_dense_experts(load_text_model(folder=folder))
        record = {
            "command": command,
            "options": asdict(options),
            "versions": versions(),
            "machine": machine(device),
            "from": {"target": "packaged:target", "sha256": file_hashes(TARGET)},
            "texts": {
                "corpus_sha256": corpus_hash(corpus),
                "chat_tokens": data.tokens,
                "loss_tokens": data.loss_tokens,
            },
            "training": asdict(chosen) | trained,
            "held_out_loss": {"before": before, "after": losses()},
            "seconds": round(time.monotonic() - started, 1),
        }
        write_provenance(folder, record)
    return record


def main(argv: Sequence[str]) -> int:
    """0, or 2 with one line on stderr."""
    out, options = parse(argv)
    try:
        record = further(out, options, shlex.join([*PROGRAM.split(), *argv]))
    except (DrafterError, OSError) as error:
        remedy = "" if isinstance(error, AdaptError | TrainingError) else "; give another --out"
        print(f"{PROGRAM}: error: {error}{remedy}", file=sys.stderr)
        return 2
    for when, found in record["held_out_loss"].items():
        print(f"held-out loss {when}: {', '.join(f'{name} {loss:.3f}' for name, loss in found.items())}")
    print(f"written: {out}, {record['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
