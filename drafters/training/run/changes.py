"""A changed run.yaml, or changed inputs, are told; finished results are thrown away only when that is asked for."""

from typing import Any

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.run.digests import digest
from k25serve.drafters.training.run.load import differences
from k25serve.drafters.training.run.state import State
from k25serve.drafters.training.run.steps import all_steps
from k25serve.drafters.training.run.work import Work

TOLD = 6  # differences named in one line


def check_changes(work: Work, state: State, asked: dict[str, Any], redo: bool) -> None:
    """Tell what differs from the run's last start, and what is done again for it.

    Raises TrainingError where finished results would be thrown away and `redo` is not set.
    """
    if not state.config:
        return
    changed = differences(state.config, asked)
    told = "; ".join(changed[:TOLD]) + (f"; and {len(changed) - TOLD} more" if len(changed) > TOLD else "")
    again = _again(work, state)
    if not again:
        if changed:
            work.say(f"run.yaml has changed ({told}): nothing that is finished depends on it")
        return
    lost = [name for name in again if state.finished(name) is not None]
    why = f"run.yaml has changed ({told})" if changed else f"{again[0]}: its inputs have changed"
    if lost and not redo:
        raise TrainingError(
            f"--out {work.folder.path}: {why}, so {', '.join(again)} would be done again and what is there removed; "
            "pass --redo for that, or give another --out"
        )
    work.say(f"{why}: {', '.join(again)} done again")


def _again(work: Work, state: State) -> list[str]:
    """Steps with a record that does not hold any more, and all with a record that are made from them."""
    found: list[str] = []
    steps = all_steps(work)
    for step in steps:
        record = state.records.get(step.name)
        if record is None:
            continue
        if record.settings != digest(step.settings()) or any(name in found for name in step.needs):
            found.append(step.name)
    names = {step.name for step in steps}
    return [*(name for name in state.records if name not in names), *found]
