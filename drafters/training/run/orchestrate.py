"""The run: every step once, in order, going on where it was stopped, telling what has changed since."""

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.progress import Progress, Shown
from k25serve.drafters.training.run.changes import check_changes
from k25serve.drafters.training.run.digests import digest
from k25serve.drafters.training.run.engine import Engines
from k25serve.drafters.training.run.folders import RunFolder, model_folder
from k25serve.drafters.training.run.load import load_config, write_config
from k25serve.drafters.training.run.lock import only_run
from k25serve.drafters.training.run.options import RunConfig
from k25serve.drafters.training.run.parts import PART
from k25serve.drafters.training.run.plan import expected_seconds, time_text
from k25serve.drafters.training.run.state import State
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.steps import all_steps
from k25serve.drafters.training.run.work import Work, remove
from k25serve.drafters.training.settings import shown

STEPS = ("data", "vocab", "capture", "fit", "export", "gate")


@dataclass(frozen=True)
class Ran:
    """facts: of each finished step; done: the steps that had something to do in this start."""

    facts: dict[str, dict[str, Any]]
    done: tuple[str, ...]


def run(
    config: RunConfig,
    out: Path,
    say: Callable[[str], None],
    *,
    redo: bool = False,
    until: str | None = None,
    progress: Callable[[], contextlib.AbstractContextManager[Progress]] = Shown,
    engines: Callable[[RunFolder, Callable[[str], None]], Engines] = Engines,
) -> Ran:
    """All steps of `config` in `out`. What is finished is not done again.

    redo: finished results whose settings have changed may be thrown away. until: the last step to do.
    Raises TrainingError, or another DrafterError, with what the user can mend; the run goes on after that.
    """
    if until is not None and until not in STEPS and not until.startswith(PART):
        raise TrainingError(f"--until {shown(until)}: no such step; give one of {', '.join(STEPS)}")
    target = model_folder("target", config.target)
    out.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(out.absolute())
    with only_run(folder.path), _signals():
        folder.temporary.mkdir(exist_ok=True)
        starter = engines(folder, say)
        starter.end_left_over()
        work = Work(config, folder, target, say, progress, starter)
        state = State(folder.state)
        asked = config.model_dump(mode="json")
        check_changes(work, state, asked, redo)
        _prune(work, state)
        if not folder.config.is_file() or _asked_before(folder.config) != config:
            write_config(config, folder.config)
        state.ask(asked)
        try:
            return _all(work, state, until)
        finally:
            work.stop_engine()


def _asked_before(path: Path) -> RunConfig | None:
    """None where it is no config any more."""
    try:
        return load_config(str(path))
    except TrainingError:
        return None


def _prune(work: Work, state: State) -> None:
    """Parts of a run that is now cut otherwise, or not at all."""
    names = {step.name for step in all_steps(work)}
    gone = [name for name in state.records if name not in names]
    for name in gone:
        state.forget(name)
    if any(name.startswith(PART) for name in gone):
        remove(work.folder.parts)


def _all(work: Work, state: State, until: str | None) -> Ran:
    done: list[str] = []
    if state.finished("data") is None:
        # A profile that is wrong is found before the hours of data, not after.
        work.engines.check(work.config.engine, work.config.gate)
    index = 0
    while index < len(steps := all_steps(work)):
        step = steps[index]
        if _one(work, state, steps, index):
            done.append(step.name)
        if step.name == until:
            break
        index += 1
    work.stop_engine()
    if until is None:
        _tidy(work)
    return Ran({name: record.facts for name, record in state.records.items()}, tuple(done))


def _one(work: Work, state: State, steps: list[Step], index: int) -> bool:
    """Whether there was something to do."""
    step = steps[index]
    settings = digest(step.settings())
    upstream = digest([_result(state, name) for name in step.needs])
    record = state.records.get(step.name)
    same = record is not None and (record.settings, record.upstream) == (settings, upstream)
    if record is not None and same and record.status == "finished":
        if not _is_needed(state, steps, index) or step.result() == record.result:
            return False
        work.say(f"{step.name}: finished, but what it made is not there as it was: done again")
        if not step.mends:
            step.clean()
    elif record is not None and not same:
        work.say(f"{step.name}: what it is made from has changed: begun anew")
        step.clean()
    state.begin(step.name, settings, upstream)
    expected = expected_seconds(work, steps)
    left = sum(expected[one.name] for one in steps[index:] if state.finished(one.name) is None)
    work.say(
        f"[{index + 1}/{len(steps)}] {step.name}: about {time_text(expected[step.name])}, {time_text(left)} left in all"
    )
    started = time.monotonic()
    facts = step.do()
    result = step.result()
    if result is None:
        raise TrainingError(f"{step.name}: ended without what it should have made; start again, and look into RUN/tmp")
    state.finish(step.name, result, started, facts)
    return True


def _result(state: State, name: str) -> str:
    record = state.finished(name)
    return record.result if record is not None else ""


def _is_needed(state: State, steps: list[Step], index: int) -> bool:
    """By a later step that is not finished: then what this one made must be there."""
    name = steps[index].name
    return any(name in later.needs and state.finished(later.name) is None for later in steps[index + 1 :])


def _tidy(work: Work) -> None:
    """A finished run leaves its logs, and nothing else of tmp/."""
    for path in work.folder.temporary.iterdir():
        if path.is_dir() and path.name != "state":
            shutil.rmtree(path)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run as Ctrl-C does: in order, the engine stopped."""

    def ended(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    # What is ignored stays so: nohup's run outlives its terminal.
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ended) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
