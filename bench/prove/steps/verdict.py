"""Each profile against the targets and the baseline."""

from k25serve.bench.prove.step import Outcome, Scene
from k25serve.bench.prove.swept import swept
from k25serve.bench.prove.verdict import judge
from k25serve.bench.provenance import Recorder, write


async def verdict(scene: Scene) -> Outcome:
    """The result file is of kind `prove`: configuration, how each step ended, and a verdict for each profile."""
    recorder, journal = Recorder("prove"), scene.journal
    baseline, *profiles = scene.arms
    before = swept(scene, baseline)
    found = [judge(scene.configuration.targets, before, swept(scene, arm)) for arm in profiles]
    data = {
        "configuration": scene.configuration.model_dump(mode="json"),
        "steps": {name: entry.model_dump(mode="json") for name, entry in journal.state.steps.items()},
        "verdicts": [one.model_dump(mode="json") for one in found],
    }
    inputs = [path for name in journal.state.steps if (path := journal.result(name)) is not None]
    file = write(recorder.finish(data, inputs), scene.results)
    return Outcome(" ".join(one.sentence for one in found), file)
