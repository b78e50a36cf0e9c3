"""The engine that a step needs, up for it; production as it was found, whatever happens."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from k25serve.bench.ab.arms import Boot
from k25serve.bench.ab.systemd import Systemctl, restored, states
from k25serve.bench.load.client import Client
from k25serve.bench.load.endpoint import Endpoint, resolve
from k25serve.bench.load.run import wait_until_served
from k25serve.bench.prove.journal import Journal, alone
from k25serve.bench.prove.step import Step
from k25serve.server.errors import UserError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Box:
    """This machine. unit: the baseline's, None where it is not ours to stop. ready_s: until it answers."""

    unit: str | None
    systemctl: Systemctl
    boot: Boot
    ready_s: float
    timeout_s: float
    key_env: str | None
    say: Say

    @asynccontextmanager
    async def place(self, step: Step) -> AsyncIterator[Endpoint | None]:
        """What `step` runs in: gives the engine's endpoint where it asks one."""
        if step.place == "any":
            yield None
            return
        if step.arm is not None and step.arm.spec.kind != "profile":
            assert step.arm.spec.endpoint is not None
            if self.unit is not None:
                await self._serve(self.unit, step.arm.spec.endpoint)
            yield step.arm.spec.endpoint
            return
        if self.unit is not None and await self.systemctl.is_active(self.unit):
            self.say(f"{self.unit}: stopping; it comes back at the end")
            await self.systemctl.stop(self.unit)
        if step.arm is None:
            yield None
            return
        async with self.boot(step.arm.name) as url:
            yield resolve(url)

    async def _serve(self, unit: str, endpoint: Endpoint) -> None:
        """The unit as it runs: to start it anew would cost another load."""
        if not await self.systemctl.is_active(unit):
            self.say(f"{unit}: starting, up to {self.ready_s / 60:.0f} min")
            await self.systemctl.start(unit)
        await self.answers(endpoint)

    async def answers(self, endpoint: Endpoint) -> None:
        """Wait for a token. Raises UserError after `ready_s`."""
        async with Client(endpoint, self.timeout_s, self.key_env) as client:
            await wait_until_served(client, self.ready_s, "--baseline-url")


@asynccontextmanager
async def production_kept(
    unit: str | None, systemctl: Systemctl, journal: Journal, say: Say, hold: Callable[[], None]
) -> AsyncIterator[None]:
    """On the way out the unit is as it was found, at the start or before a killed campaign.

    hold: called before that, so that no signal comes between.
    """
    if unit is None:
        yield
        return
    found = journal.keep_production(await states([unit], systemctl))
    try:
        yield
    finally:
        hold()
        await restore(found, systemctl, journal, say)


async def restore(found: Mapping[str, bool], systemctl: Systemctl, journal: Journal, say: Say) -> None:
    """Units as they were found; their loads are not waited for."""
    async with restored(found, systemctl, journal.production_is_back):
        pass
    for unit, was_active in found.items():
        say(f"{unit}: {'started, or runs still' if was_active else 'stopped'}, as it was found")


async def bring_back(folder: Path, say: Say) -> None:
    """What a killed campaign left: its unit is put back, its steps are kept. Raises UserError where there is none."""
    journal = Journal.open(folder)
    if journal is None:
        raise UserError(f"--restore {folder}: no campaign there; give the folder that was its --output")
    with alone(folder):
        found = journal.state.production
        if found is None:
            say(f"{folder}: nothing to put back")
            return
        await restore(found, Systemctl(journal.state.configuration.systemctl), journal, say)
