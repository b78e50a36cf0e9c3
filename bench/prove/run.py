"""Steps one after the other: those that are finished are not run again, an engine is up once for all that need it."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from k25serve.bench.prove.journal import Journal
from k25serve.bench.prove.production import Box, production_kept
from k25serve.bench.prove.step import Scene, Step
from k25serve.server.errors import UserError
from k25serve.server.signals import OR_CLOSED, on_stop


@dataclass(slots=True)
class Interruption:
    """SIGINT, SIGTERM and a closed terminal end the campaign in order; while production comes back they wait."""

    say: Callable[[str], None]
    end: Callable[[], object]
    held: bool = False

    def heard(self) -> None:
        """End the campaign, once; from then on signals are told to wait."""
        if self.held:
            self.say("ending: what was stopped comes back first")
        else:
            self.held = True
            self.end()

    def hold(self) -> None:
        """From now on they are told to wait."""
        self.held = True


def pending(steps: Sequence[Step], journal: Journal) -> list[Step]:
    """Those still to be run; one that reads results is run again after any that is."""
    left: list[Step] = []
    for step in steps:
        if not journal.finished(step.name) or (step.place == "end" and left):
            left.append(step)
    return left


async def run_campaign(steps: Sequence[Step], scene: Scene, box: Box) -> None:
    """All steps that are left. Raises UserError where a step fails."""
    task = asyncio.current_task()
    assert task is not None
    interruption = Interruption(scene.say, task.cancel)
    with on_stop(interruption.heard, OR_CLOSED):
        await _run_steps(steps, scene, box, interruption)


async def _run_steps(steps: Sequence[Step], scene: Scene, box: Box, interruption: Interruption) -> None:
    left = pending(steps, scene.journal)
    for step in steps:
        if step not in left:
            scene.say(f"{step.title}: kept from before: {scene.journal.state.steps[step.name].told}")
    measuring = [step for step in left if step.place != "end"]
    async with production_kept(box.unit, box.systemctl, scene.journal, scene.say, interruption.hold):
        for _, group in itertools.groupby(measuring, key=lambda step: (step.place, step.arm)):
            await _run_group(list(group), scene, box)
    interruption.held = False
    for step in left:
        if step.place == "end":
            await _run_step(step, scene)


async def _run_group(group: list[Step], scene: Scene, box: Box) -> None:
    async with box.place(group[0]) as endpoint:
        for step in group:
            await _run_step(step, replace(scene, endpoint=endpoint))


async def _run_step(step: Step, scene: Scene) -> None:
    scene.say(f"{step.title} ...")
    begun = time.monotonic()
    try:
        outcome = await step.run(scene)
    except UserError as error:
        scene.journal.add(step.name, "failed", str(error), None, time.monotonic() - begun)
        raise
    scene.journal.add(step.name, outcome.status, outcome.told, outcome.file, time.monotonic() - begun)
    scene.say(f"{step.title}: {'skipped: ' if outcome.status == 'skipped' else ''}{outcome.told}")
