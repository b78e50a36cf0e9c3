"""What to do, in a sentence."""

from dataclasses import dataclass

from k25serve.drafters.training.estimate.estimate import Estimate, estimate
from k25serve.drafters.training.estimate.machine import load_machine, machine_names

DAYS_TO_RENT = 2.0  # of a machine that serves: as long as that it can be down, hardly longer
HOURS_A_DAY = 24.0


@dataclass(frozen=True)
class Elsewhere:
    """The same run on a machine with NVLink."""

    machine: str
    hours: float
    gpu_hours: float


def elsewhere(found: Estimate) -> list[Elsewhere]:
    """On each packaged machine with NVLink whose GPUs hold the target, and that is not this one: shortest first."""
    others = []
    for name in machine_names():
        if name == found.machine.name or load_machine(name).links != "nvlink":
            continue
        # Rented machines come with the disk that is asked for.
        other = estimate(found.options.model_copy(update={"machine": name, "disk_tb": None}))
        if other.room.weights + other.room.runtime < other.room.memory:
            others.append(Elsewhere(name, other.hours.total, other.gpu_hours))
    return sorted(others, key=lambda other: other.hours)


def recommend(found: Estimate) -> str:
    """One sentence on where and how."""
    spent, asked = found.hours.total, found.options.hours
    if found.room.weights + found.room.runtime >= found.room.memory:
        return f"The weights do not fit {found.machine.name}; take a machine with more memory."
    days = spent / HOURS_A_DAY
    how = _how(found)
    too_long = asked is not None and spent > asked
    if found.machine.links == "nvlink" or not (too_long or days > DAYS_TO_RENT):
        if asked is not None and too_long:
            return (
                f"{spent:.0f} hours are needed, {asked:g} may be spent: take at most "
                f"{int(found.options.samples * asked / spent)} samples, or more machines; {how}."
            )
        return f"Run it here, {_time(spent)}: {how}."
    others = elsewhere(found)
    if not others:
        return f"{_time(spent)} here: train on fewer samples; {how}."
    best = min(others, key=lambda other: other.gpu_hours)
    return (
        f"{_time(spent)} of this machine, which serves nothing meanwhile: rent a machine with NVLink ({best.machine}: "
        f"about {best.hours:.0f} hours, {best.gpu_hours:.0f} GPU-hours), or train on fewer samples; if here, {how}."
    )


def _how(found: Estimate) -> str:
    if found.alternates:
        return f"capture and fit take turns over {found.shards} parts, since the disk holds one at a time"
    if found.room.beside:
        return "the GPUs hold engine and trainer side by side"
    return "regenerate and capture first, stop the engine, then fit: the GPUs do not hold both"


def _time(hours: float) -> str:
    if hours < 1:
        return f"{hours * 60:.1f} minutes"
    return f"{hours:.1f} hours" if hours < 2 * HOURS_A_DAY else f"{hours / HOURS_A_DAY:.1f} days"
