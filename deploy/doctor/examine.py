"""Runs the checks, in the order in which a fault would stop a start."""

from collections.abc import Callable, Iterable, Iterator

from k25serve.deploy.doctor.checks import engine, gpus, links, memory, models, ports, system
from k25serve.deploy.doctor.finding import Finding
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile

Check = Callable[[Profile, Machine], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    engine.check,
    models.check,
    gpus.check,
    memory.check,
    system.check,
    ports.check,
    links.check,
)


def examine(profile: Profile, machine: Machine) -> Iterator[Finding]:
    """Each finding as it is found. Nothing is changed, no weight is loaded."""
    for check in CHECKS:
        yield from check(profile, machine)
