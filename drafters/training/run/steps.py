"""The steps of a run, in order."""

from k25serve.drafters.checkpoint import Target
from k25serve.drafters.training.run.capture_step import capture_step
from k25serve.drafters.training.run.data_steps import Sizes, data_steps, read_sizes
from k25serve.drafters.training.run.fit_step import export_step, fit_step
from k25serve.drafters.training.run.gate_step import gate_step
from k25serve.drafters.training.run.parts import part_count, part_steps
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.work import Work


def all_steps(work: Work, sizes: Sizes | None = None) -> list[Step]:
    """What comes after the data depends on its size; before it is known, `sizes` may be guessed."""
    steps = data_steps(work)
    known = read_sizes(work) or sizes
    count = 1 if known is None else parts_of(work, known)
    if count > 1:
        steps += part_steps(work, count)
    else:
        steps.append(capture_step(work, work.folder, "capture", ("data",)))
        steps.append(fit_step(work, work.folder, work.fit_options, "fit", ("data", "vocab", "capture")))
    steps.append(export_step(work, work.folder, "export", ("fit",)))
    if work.config.gate is not None:
        steps.append(gate_step(work, work.config.gate))
    return steps


def parts_of(work: Work, sizes: Sizes) -> int:
    """How many parts the hidden states are made in."""
    return part_count(sizes, Target(work.target).size("hidden_size"), work.config.hidden_bytes)
