"""The campaign for readers."""

from k25serve.bench import provenance
from k25serve.bench.prove.step import Outcome, Scene
from k25serve.bench.prove.summary import summary
from k25serve.bench.prove.swept import swept
from k25serve.bench.prove.verdict import ProfileVerdict

SUMMARY = "summary.md"


async def report(scene: Scene) -> Outcome:
    """`summary.md`, in the campaign's folder."""
    path = scene.journal.result("verdict")
    assert path is not None
    verdicts = [ProfileVerdict.model_validate(one) for one in provenance.read(path).data["verdicts"]]
    file = scene.journal.folder / SUMMARY
    arms = [swept(scene, arm) for arm in scene.arms]
    file.write_text(summary(verdicts, arms, scene.journal.state.steps), encoding="utf-8")
    return Outcome(str(file), file)
