"""The plan and the outcome of a run, on a terminal."""

import contextlib
from pathlib import Path
from typing import Any

from k25serve.drafters.training.progress import Silent
from k25serve.drafters.training.run.engine import Engines
from k25serve.drafters.training.run.folders import RunFolder, model_folder
from k25serve.drafters.training.run.options import RunConfig
from k25serve.drafters.training.run.orchestrate import Ran
from k25serve.drafters.training.run.plan import estimate_of, known_sizes, plan_rows, plan_table
from k25serve.drafters.training.run.state import State
from k25serve.drafters.training.run.steps import all_steps
from k25serve.drafters.training.run.work import Work


def print_plan(config: RunConfig, out: Path, name: str) -> None:
    """Steps, sizes, times. Writes nothing. Raises TrainingError where the config's models or files are not there."""
    from rich.console import Console

    folder = RunFolder(out.absolute())
    work = Work(
        config,
        folder,
        model_folder("target", config.target),
        lambda line: None,
        lambda: contextlib.nullcontext(Silent()),
        Engines(folder, lambda line: None),
    )
    sizes = known_sizes(work)
    steps, state = all_steps(work, sizes), State(folder.state)
    console, found = Console(), estimate_of(work, sizes)
    console.print(f"{name} in {out}, times of {found.machine.name}", highlight=False, markup=False)
    console.print(plan_table(plan_rows(work, steps), [step.name for step in steps if state.finished(step.name)]))
    beside = "holds" if found.room.beside else "does not hold"
    console.print(
        f"A GPU of {found.room.memory:g} GB {beside} engine and trainer ({found.room.training:.1f} GB) at once."
        if found.machine.links != "none"
        else "On a CPU the engine is stopped before the fit.",
        highlight=False,
    )


def summary(done: Ran, out: Path) -> list[str]:
    """What came of it."""
    if not done.done:
        return [f"nothing was left to do in {out}"]
    lines = [f"done: {', '.join(done.done)}"]
    held_out = (done.facts.get("fit") or {}).get("held_out")
    if held_out:
        lines.append(f"accept length on held-out answers, by the trainer: {held_out['accept_length']:.3f}")
    if "export" in done.facts:
        lines.append(f"drafter: {out / 'drafter'}")
    gate = done.facts.get("gate")
    if gate:
        lines.append(_gate_line(gate))
        lines += [f"gate: {reason}" for reason in gate["reasons"]]
    return lines


def _gate_line(gate: dict[str, Any]) -> str:
    own = gate["trained"]["all"]["accept_length"]
    line = f"gate {gate['verdict']}: accept length {own or 0:.3f} on {gate['prompts']} held-out prompts"
    if "baseline" in gate:
        other, spread = gate["baseline"]["all"]["accept_length"], gate["difference"]
        line += f", {other or 0:.3f} of the baseline ({spread['low']:+.3f} to {spread['high']:+.3f})"
    return line
