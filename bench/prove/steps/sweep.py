"""An arm under load at every level, and each class of prompts alone: the same texts for all arms."""

from k25serve.bench.load.campaign import Settings, load
from k25serve.bench.load.plan import LoadPlan
from k25serve.bench.load.records_file import write_result
from k25serve.bench.prove.configuration import Configuration
from k25serve.bench.prove.step import Arm, Outcome, Scene, StepFailed
from k25serve.bench.provenance import Recorder


def load_plan(configuration: Configuration) -> LoadPlan:
    """Natural ends are left to the drafter gate. Raises UserError for levels or classes that are none."""
    return LoadPlan(
        levels=configuration.levels,
        classes=configuration.classes,
        requests=configuration.requests,
        natural=False,
    )


async def sweep(scene: Scene, arm: Arm) -> Outcome:
    """Raises StepFailed where it is no measurement: the campaign's verdict would rest on it."""
    wanted, plan = scene.configuration, load_plan(scene.configuration)
    settings = Settings(
        scene.engine(),
        plan,
        tokens=wanted.tokens,
        seed=wanted.seed,
        salt=scene.journal.state.salt,
        timeout_s=scene.timeout_s,
        key_env=scene.key_env if arm.spec.kind != "profile" else None,
    )
    recorder, done = Recorder("load"), 0
    total = sum(map(plan.count, plan.cells()))

    def advance() -> None:
        nonlocal done
        done += 1
        if done % max(1, total // 10) == 0:
            scene.say(f"  {done} of {total} answers")

    data, records = await load(settings, advance)
    notes = f"prove: arm {arm.name}, salt {settings.salt}"
    file = write_result(recorder, data.model_dump(mode="json"), records, scene.results, notes)
    if not data.valid:
        first = next(one for one in data.findings if one.severity == "invalid")
        raise StepFailed(f"sweep of {arm.name}: INVALID: {first.code} at {first.where}: {first.detail} ({file})")
    for finding in data.findings:
        scene.say(f"  warning: {finding.where}: {finding.detail}")
    swept = [cell for cell in data.cells if cell.cell.prompt_class == "mixed"]
    return Outcome(", ".join(f"C={one.cell.level} {one.tokens_per_s:.1f} tok/s" for one in swept), file)
