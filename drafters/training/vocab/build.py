"""The vocab step: from the data's answers to d2t, t2d, their coverage and the counts."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from k25serve.drafters.adapters.data import booleans, int64
from k25serve.drafters.adapters.write import new_folder, write_json, write_safetensors
from k25serve.drafters.checkpoint import Target, end_tokens, read_tokens
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object
from k25serve.drafters.training.progress import Progress
from k25serve.drafters.training.settings import shown
from k25serve.drafters.training.vocab.count import count_tokens
from k25serve.drafters.training.vocab.options import VocabOptions
from k25serve.drafters.training.vocab.report import Coverage, VocabReport
from k25serve.drafters.vocab import choose_ids, to_offsets, to_t2d, wanted_tokens

MAPS, REPORT, COUNTS = "vocab.safetensors", "report.json", "counts.json"
ALL = "all"
SPLITS = ("train", "held_out")


def build(options: VocabOptions, data: Path, target: Path, out: Path, progress: Progress) -> VocabReport:
    """Write `out`/vocab.safetensors {d2t, t2d}, report.json and counts.json; what is finished is not done again.

    Where the drafter's vocabulary is the target's, d2t is all zeros, t2d all true and `reduced` false.
    Raises TrainingError, or AdaptError where the size does not fit.
    """
    facts = Target(target)
    vocab_size = facts.size("vocab_size")
    size = options.draft_vocab_size or vocab_size
    described = read_object(data / REPORT)
    try:
        hashes = {name: str(described[name]["sha256"]) for name in SPLITS}
        rows = sum(int(described[name]["rows"]) for name in SPLITS)
    except (KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{data / REPORT}: has no {error}; run `k25serve drafter train data` again") from None
    done = _finished(out, size, vocab_size, hashes)
    if done is not None:
        return done
    progress.start("count tokens", rows)
    counts = {name: count_tokens(data / name, vocab_size, progress.advance) for name in SPLITS}
    train = sum(counts["train"].values())
    by_id = {token: int(count) for token, count in enumerate(train) if count}
    tokens = read_tokens(target)
    wanted = wanted_tokens(tokens.special if tokens else {}, end_tokens(target, facts.text_config))
    ids = choose_ids(by_id, size, vocab_size, wanted.ids)
    report = VocabReport(
        vocab_size=vocab_size,
        draft_vocab_size=size,
        reduced=size < vocab_size,
        seen=len(by_id),
        always=wanted.always | wanted.sometimes,
        data=hashes,
        coverage={name: _coverage(by_label, ids) for name, by_label in counts.items() if by_label},
    )
    with new_folder(out) as folder:
        maps = {"d2t": int64(to_offsets(ids)), "t2d": booleans(to_t2d(ids, vocab_size))}
        write_safetensors(folder / MAPS, maps)
        write_json(folder / COUNTS, {str(token): count for token, count in by_id.items()})
        write_json(folder / REPORT, report.model_dump(mode="json"))
    return report


def _coverage(by_label: dict[str, Any], ids: list[int]) -> dict[str, Coverage]:
    labels = by_label | {ALL: sum(by_label.values())}
    return {
        label: Coverage(tokens=int(counts.sum()), covered=int(counts[ids].sum())) for label, counts in labels.items()
    }


def _finished(out: Path, size: int, vocab_size: int, hashes: dict[str, str]) -> VocabReport | None:
    """The report of what is there; None where there is none. Raises TrainingError where it is of something else."""
    path = out / REPORT
    if not path.is_file():
        return None
    try:
        report = VocabReport.model_validate_json(path.read_bytes())
    except ValidationError:
        raise TrainingError(f"{path}: not a report of this step; remove {out}, or choose another --out") from None
    for name, there, asked in (
        ("draft_vocab_size", report.draft_vocab_size, size),
        ("the target's vocab_size", report.vocab_size, vocab_size),
        *((f"hash of {name}", report.data.get(name), sha) for name, sha in hashes.items()),
    ):
        if there != asked:
            raise TrainingError(
                f"{out}: holds another vocabulary ({name} {shown(there)}, asked for: {shown(asked)}); "
                "remove it, or choose another --out"
            )
    return report
