"""The data folder: what makes it finished, and how it becomes so in one step."""

import os
import shutil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data.report import DataReport
from k25serve.drafters.training.settings import shown

REPORT, UNFINISHED = "report.json", ".unfinished"


def finished(out: Path, settings: dict[str, Any], inputs: list[str], target: dict[str, str]) -> DataReport | None:
    """The report of what is there already; None where there is none.

    Raises TrainingError where other data lies there. report.json is written last, so it means that all is there.
    """
    path = out / REPORT
    if not path.is_file():
        return None
    try:
        report = DataReport.model_validate_json(path.read_bytes())
    except ValidationError:
        raise TrainingError(f"{path}: not a report of this step; remove {out}, or choose another --out") from None
    found = [one["sha256"] for one in report.inputs if one["file"] != "packaged"]
    for name, there, asked in (
        *((key, report.settings.get(key), settings.get(key)) for key in {**report.settings, **settings}),
        ("input files", [sha[:12] for sha in found], [sha[:12] for sha in inputs]),
        *((f"target's {key}", report.target.get(key), target[key]) for key in target),
    ):
        if there != asked:
            raise TrainingError(
                f"{out}: holds data with other settings ({name} {shown(there)}, asked for: {shown(asked)}); "
                "remove it, or choose another --out"
            )
    return report


def begin(out: Path) -> Path:
    """An empty folder for unfinished work."""
    folder = out / UNFINISHED
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def publish(out: Path, work: Path, names: tuple[str, ...], report: DataReport) -> None:
    """Move the folders `names` of `work` to `out`, then the report; all bytes are on the disk before."""
    for name in names:
        for path in (work / name).iterdir():
            _sync(path)
        if (out / name).exists():
            shutil.rmtree(out / name)  # left by a run that was killed before its report
        (work / name).rename(out / name)
    draft = work / REPORT
    draft.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _sync(draft)
    os.replace(draft, out / REPORT)
    shutil.rmtree(work)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
