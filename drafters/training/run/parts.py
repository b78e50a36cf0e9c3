"""Where the hidden states of all samples do not fit: part by part, captured, fitted for all epochs, dropped.

A part is a run folder of its own, RUN/parts/<k>, with every n-th sample; vocabulary and held-out states are the run's.
The next part starts warm from the part before it. Its optimizer and learning rate begin anew, so the result is not that
of a fit on everything at once.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.fit.options import FitOptions, Init
from k25serve.drafters.training.run.capture_step import capture_all, capture_settings
from k25serve.drafters.training.run.data_steps import Sizes
from k25serve.drafters.training.run.digests import digest, of_files
from k25serve.drafters.training.run.fit_step import drafter_files, export_all, fit_all, fit_settings
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.work import Work, remove

STATES, BF16 = 4, 2
PART = "part "


def part_count(sizes: Sizes, hidden_size: int, budget: int | None) -> int:
    """How many parts there must be; held-out states stay all the time.

    Raises TrainingError where not even those and one sample fit.
    """
    if budget is None:
        return 1
    token = STATES * hidden_size * BF16
    least = (sizes.held_out_tokens + sizes.train_tokens / sizes.train_rows) * token
    if budget < least:
        raise TrainingError(
            f"hidden_bytes = {budget}: held-out states and one sample alone take {least:.0f}; raise it, or lower "
            "data.held_out"
        )
    return math.ceil(sizes.train_tokens * token / (budget - sizes.held_out_tokens * token))


def part_steps(work: Work, count: int) -> list[Step]:
    """One a part, then the last part's fit becomes the run's."""
    names = [f"{PART}{index + 1} of {count}" for index in range(count)]
    steps = []
    for index, name in enumerate(names):
        before = names[index - 1 : index] if index else []
        steps.append(_part(work, index, count, name, ("data", "vocab", *before)))
    steps.append(
        Step(
            "fit",
            (names[-1],),
            lambda: {"parts": count},
            lambda: _adopt(work, part_folder(work, count - 1)),
            lambda: of_files([work.folder.fit / "final" / "model.safetensors", work.folder.fit / "curves.jsonl"]),
            lambda: remove(work.folder.fit),
        )
    )
    return steps


def part_folder(work: Work, index: int) -> RunFolder:
    return RunFolder(work.folder.parts / str(index))


def _part(work: Work, index: int, count: int, name: str, needs: tuple[str, ...]) -> Step:
    folder, options = part_folder(work, index), work.fit_options
    if index:
        warm = part_folder(work, index - 1).drafter
        options = options.model_copy(update={"init": Init(kind="warm", drafter=warm)})
    settings = fit_settings(work, work.fit_options)
    return Step(
        name,
        needs,
        lambda: {"of": count, "capture": capture_settings(work), "fit": settings},
        lambda: _do(work, folder, options, index, count),
        lambda: of_files(drafter_files(folder.drafter)),
        lambda: _clean(work, folder, count),
        mends=True,
    )


def _do(work: Work, folder: RunFolder, options: FitOptions, index: int, count: int) -> dict[str, Any]:
    """Goes on wherever it was stopped: a whole drafter means that the part is fitted, and its states may go."""
    facts: dict[str, Any] = {}
    if not (folder.drafter / "provenance.json").is_file():
        _split(work, folder, index, count)
        capture_all(work, folder)
        facts = fit_all(work, folder, options)
        export_all(work, folder)
    remove(folder.hidden / "train")
    return facts


def _split(work: Work, folder: RunFolder, index: int, count: int) -> None:
    """The part's data: every `count`-th row, so that each part has the same mix."""
    report = folder.data / "report.json"
    if not report.is_file():
        import datasets

        remove(folder.path)
        folder.data.mkdir(parents=True)
        rows = datasets.load_from_disk(str(work.folder.data / "train"))
        rows.select(range(index, len(rows), count)).save_to_disk(str(folder.data / "train"))
        told = {"part": index, "of": count, "whole": sha256(work.folder.data / "report.json")}
        write_whole(report, json.dumps(told).encode())
    (work.folder.hidden / "held_out").mkdir(parents=True, exist_ok=True)
    folder.hidden.mkdir(exist_ok=True)
    for place, there in (
        (folder.data / "held_out", work.folder.data / "held_out"),
        (folder.hidden / "held_out", work.folder.hidden / "held_out"),
        (folder.vocab, work.folder.vocab),
    ):
        if not place.is_symlink():
            place.symlink_to(os.path.relpath(there, place.parent), target_is_directory=True)


def _adopt(work: Work, last: RunFolder) -> dict[str, Any]:
    """A copy under the run's own name, by links where the disk can."""
    remove(work.folder.fit)
    draft = work.folder.temporary / "fit"
    remove(draft)
    _link_all(last.fit, draft)
    draft.replace(work.folder.fit)
    return {"from": digest([sha256(path) for path in drafter_files(last.drafter)])}


def _link_all(source: Path, to: Path) -> None:
    to.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            if path.name != "checkpoints":
                _link_all(path, to / path.name)
        else:
            os.link(path, to / path.name)


def _clean(work: Work, folder: RunFolder, count: int) -> None:
    remove(folder.path)
    if not any(part_folder(work, index).path.exists() for index in range(count)):
        remove(work.folder.hidden)
