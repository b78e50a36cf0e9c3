"""Capture: an engine is booted where a shard is missing; the first one's states are compared with a plain forward."""

import json
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.capture.shards import Shard
from k25serve.drafters.training.run.digests import of_states
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.work import Work, remove

CHECKED = "check.json"


def capture_settings(work: Work) -> Any:
    """What decides the states: layers, shards, engine; not how many at a time, nor where they are staged."""
    engine = work.config.engine.model_dump(mode="json", exclude={"port", "staging"})
    return {"engine": engine, "rows_per_shard": work.config.capture.rows_per_shard}


def capture_step(work: Work, folder: RunFolder, name: str, needs: tuple[str, ...]) -> Step:
    """Every shard of the folder's data. The engine stays up: the step after it stops it, or keeps it."""
    return Step(
        name,
        needs,
        lambda: capture_settings(work),
        lambda: capture_all(work, folder),
        lambda: of_states(folder.data, folder.hidden, work.capture_options),
        lambda: remove(folder.hidden),
        mends=True,
    )


def capture_all(work: Work, folder: RunFolder) -> dict[str, Any]:
    """What is sealed already is verified and left alone. Raises TrainingError where the check fails."""
    from k25serve.drafters.training.capture.shards import plan_shards

    options = work.capture_options
    if of_states(folder.data, folder.hidden, options) is not None:
        work.say("capture: every shard is there, no engine is needed")
        return _facts(work)
    shards = plan_shards(folder.data, options)
    first, rest = shards[:1], shards[1:]
    _capture(work, folder, first)
    _check(work, folder)
    if rest:
        _capture(work, folder, rest)
    return _facts(work)


def _capture(work: Work, folder: RunFolder, shards: tuple[Shard, ...]) -> None:
    from k25serve.drafters.training.capture.run import capture

    url, staging = work.capture_engine()
    with work.progress() as progress:
        done = capture(work.capture_options, folder.data, folder.hidden, url, work.target, staging, progress, shards)
    speed = f", {done.tokens_per_second:,.0f} tokens/s" if done.tokens else ""
    work.say(f"capture: {done.captured} samples captured, {done.kept} were there{speed}")


def _check(work: Work, folder: RunFolder) -> None:
    """Once a run: layers that are shifted would be found only when the drafter is served."""
    path = work.folder.hidden / CHECKED
    if not work.config.check or path.is_file():
        return
    from k25serve.drafters.training.capture.check import check

    url, _ = work.capture_engine()
    found = check(work.capture_options, folder.data, folder.hidden, url, work.target, work.config.check)
    if found.faults:
        raise TrainingError(f"capture: the states are not what they should be: {found.faults[0]}; see engine.layers")
    told = {"samples": found.samples, "tokens": found.tokens, "layers": len(found.layers), "not_here": found.not_here}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(told).encode())
    how = found.not_here or f"{len(found.layers)} layers against a plain forward"
    work.say(f"capture: {found.samples} samples checked: {how}")


def _facts(work: Work) -> dict[str, Any]:
    path: Path = work.folder.hidden / CHECKED
    return {"checked": json.loads(path.read_bytes()) if path.is_file() else None}
