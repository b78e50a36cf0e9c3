"""The steps before an engine is needed: data and vocabulary."""

import shutil
from dataclasses import dataclass
from typing import Any

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object_if_there
from k25serve.drafters.training.run.digests import digest, of_files, of_model
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.work import Work, remove

REPORT = "report.json"
ANSWERS = "answers.jsonl"  # of the served model: kept whatever changes, each is looked up by its own request


def data_steps(work: Work) -> list[Step]:
    """data, vocab."""
    folder = work.folder
    return [
        Step(
            "data",
            (),
            lambda: _asked(work),
            lambda: _prepare(work),
            lambda: of_files([folder.data / REPORT]) if _whole(work) else None,
            lambda: _clean(work),
        ),
        Step(
            "vocab",
            ("data",),
            lambda: work.config.vocab.model_dump(mode="json"),
            lambda: _build(work),
            lambda: of_files([folder.vocab / "vocab.safetensors", folder.vocab / REPORT]),
            lambda: remove(folder.vocab),
        ),
    ]


@dataclass(frozen=True)
class Sizes:
    """Rows and tokens of both splits."""

    train_rows: int
    train_tokens: int
    held_out_rows: int
    held_out_tokens: int


def read_sizes(work: Work) -> Sizes | None:
    """Of finished data; None before."""
    report = read_object_if_there(work.folder.data / REPORT)
    if not report:
        return None
    train, held_out = report["train"], report["held_out"]
    return Sizes(train["rows"], train["tokens"], held_out["rows"], held_out["tokens"])


def _asked(work: Work) -> Any:
    from k25serve.drafters.training.data.files import found_files

    try:
        files = [sha256(path) for path in found_files(work.config.data.inputs)]
    except TrainingError:
        # They may go once the data is made.
        report = read_object_if_there(work.folder.data / REPORT)
        if not report:
            raise
        files = [str(one["sha256"]) for one in report["inputs"] if one["file"] != "packaged"]
    return {
        "settings": work.config.data.decisive,
        "files": files,
        "target": digest(of_model(work.target)),
    }


def _prepare(work: Work) -> dict[str, Any]:
    from k25serve.drafters.training.data.prepare import prepare

    with work.progress() as progress:
        report = prepare(work.config.data, work.target, work.folder.data, progress)
    if not report.held_out.rows:
        raise TrainingError(
            f"data: none of {report.train.rows} samples was drawn for held_out; raise data.held_out "
            f"({work.config.data.held_out:g}), or give more samples"
        )
    return {
        "train": {"rows": report.train.rows, "tokens": report.train.tokens},
        "held_out": {"rows": report.held_out.rows, "tokens": report.held_out.tokens},
    }


def _whole(work: Work) -> bool:
    return all((work.folder.data / split / "dataset_info.json").is_file() for split in ("train", "held_out"))


def _clean(work: Work) -> None:
    data = work.folder.data
    if not data.exists():
        return
    answers = data / ANSWERS
    for path in sorted(data.iterdir(), key=lambda path: path.name != REPORT):
        if path == answers:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _build(work: Work) -> dict[str, Any]:
    from k25serve.drafters.training.vocab.build import build

    with work.progress() as progress:
        report = build(work.config.vocab, work.folder.data, work.target, work.folder.vocab, progress)
    coverage = report.coverage.get("held_out", {}).get("all")
    return {"draft_vocab_size": report.draft_vocab_size, "coverage": coverage.share if coverage else None}
