"""Fit and export, of the whole run or of one part."""

import sys
from pathlib import Path
from typing import Any

import yaml

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object, read_object_if_there
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.run.digests import digest, of_files, of_model
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.processes import start
from k25serve.drafters.training.run.rank import ERROR
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.work import Work, remove

# How it is computed, not what: fit itself goes on with other values of these.
FREE = {"loader_workers", "checkpoint_every_steps", "checkpoint_every_seconds", "verify"}
RANK = ("-m", "k25serve.drafters.training.run.rank")


def fit_settings(work: Work, options: FitOptions) -> Any:
    """The options, and the drafter that a warm start begins from."""
    warm = options.init.drafter
    return {
        "options": options.model_dump(mode="json", exclude=FREE),
        "processes": work.config.processes,
        "warm": digest(of_model(warm)) if warm is not None and warm.is_dir() else None,
    }


def fit_step(work: Work, folder: RunFolder, options: FitOptions, name: str, needs: tuple[str, ...]) -> Step:
    return Step(
        name,
        needs,
        lambda: fit_settings(work, options),
        lambda: fit_all(work, folder, options),
        lambda: of_files([folder.fit / "final" / "model.safetensors", folder.fit / "curves.jsonl"]),
        lambda: remove(folder.fit),
        mends=True,
    )


def fit_all(work: Work, folder: RunFolder, options: FitOptions) -> dict[str, Any]:
    """In this process, or in one for each GPU. The engine is stopped before, unless both have room."""
    if not work.config.keep_engine:
        work.stop_engine()
    if work.config.processes == 1:
        from k25serve.drafters.training.fit.run import fit

        with work.progress() as progress:
            fit(options, folder.path, work.target, folder.fit, progress)
    else:
        _fit_on_all(work, folder, options)
    result = read_object(folder.fit / "result.json")
    return {"steps": result.get("step"), "tokens": result.get("tokens"), "held_out": result.get("held_out")}


def _fit_on_all(work: Work, folder: RunFolder, options: FitOptions) -> None:
    """Raises TrainingError where a process fails."""
    config, log = work.folder.temporary / "fit.yaml", work.folder.temporary / "fit.log"
    write_whole(config, yaml.safe_dump(options.model_dump(mode="json"), sort_keys=False).encode())
    command = [
        *(sys.executable, "-P", "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(work.config.processes), *RANK),
        *(str(folder.path), str(work.target), str(config), str(folder.fit)),
    ]
    work.say(f"fit: {work.config.processes} processes, log {log}")
    with log.open("wb") as output:
        process = start(command, {}, output)
    try:
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if code:
        lines = log.read_text(errors="replace").splitlines()
        told = next((line for line in lines if line.startswith(ERROR)), f"exit code {code}")
        raise TrainingError(f"fit: {told.removeprefix(ERROR)}; its log: {log}")


def export_step(work: Work, folder: RunFolder, name: str, needs: tuple[str, ...]) -> Step:
    return Step(
        name,
        needs,
        lambda: work.config.export.model_dump(mode="json"),
        lambda: export_all(work, folder),
        lambda: of_files(drafter_files(folder.drafter)),
        lambda: remove(folder.drafter),
    )


def drafter_files(drafter: Path) -> list[Path]:
    """Those that decide what a drafter does."""
    return [drafter / "config.json", drafter / "model.safetensors"]


def export_all(work: Work, folder: RunFolder) -> dict[str, Any]:
    """A drafter of this very fit that is there already is left as it is."""
    from k25serve.drafters.training.export.origin import training_record
    from k25serve.drafters.training.export.run import export

    there = read_object_if_there(folder.drafter / "provenance.json")
    if there.get("training") != training_record(folder.path):
        remove(folder.drafter)
        export(work.config.export, folder.path, work.target, folder.drafter)
    return {"drafter": str(folder.drafter)}
