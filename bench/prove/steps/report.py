"""The campaign for readers."""

from pathlib import Path

from k25serve.bench import provenance
from k25serve.bench.prove.configuration import Targets
from k25serve.bench.prove.step import Outcome, Scene
from k25serve.bench.prove.summary import summary
from k25serve.bench.prove.swept import swept
from k25serve.bench.prove.verdict import ProfileVerdict
from k25serve.bench.report import html
from k25serve.bench.report import markdown as as_markdown
from k25serve.bench.report.build import build
from k25serve.bench.report.campaign import Target, load_campaign
from k25serve.bench.report.sources import read_sources

SUMMARY, PAGE, TEXT = "summary.md", "report.html", "report.md"


async def report(scene: Scene) -> Outcome:
    """In the campaign's folder: `summary.md`, and what `bench report` makes of its results."""
    journal = scene.journal
    verdict = journal.result("verdict")
    assert verdict is not None
    verdicts = [ProfileVerdict.model_validate(one) for one in provenance.read(verdict).data["verdicts"]]
    arms = [swept(scene, arm) for arm in scene.arms]
    results = [path for name in journal.state.steps if (path := journal.result(name)) is not None]
    document = build(
        read_sources([path for path in results if scene.results in path.parents]),
        load_campaign(None).model_copy(update={"targets": _targets(scene.configuration.targets)}),
        "Is it faster?",
    )
    _write(journal.folder / SUMMARY, summary(verdicts, arms, journal.state.steps))
    _write(journal.folder / TEXT, as_markdown.render(document))
    _write(journal.folder / PAGE, html.render(document))
    return Outcome(f"{journal.folder / PAGE}, {TEXT}, {SUMMARY}", journal.folder / PAGE)


def _targets(wanted: Targets) -> tuple[Target, ...]:
    """The packaged campaign's, with the bounds that were asked for."""
    single, total = load_campaign(None).targets
    return (
        single.model_copy(update={"more_than": wanted.single_tok_s}),
        total.model_copy(
            update={
                "what": f"{wanted.total_level} concurrent requests",
                "at_least": wanted.total_tok_s,
                "concurrency": wanted.total_level,
            }
        ),
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
