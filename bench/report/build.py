"""Sources and campaign -> document. Pure."""

from k25serve.bench.report.campaign import Campaign
from k25serve.bench.report.document import Block, Document, Listing, Section, Table
from k25serve.bench.report.sections.provenance import provenance, warnings
from k25serve.bench.report.sections.targets import targets
from k25serve.bench.report.sections.verdict import sentence
from k25serve.bench.report.sources import Sources
from k25serve.bench.report.topics import topics


def build(sources: Sources, campaign: Campaign, title: str) -> Document:
    """The verdict first, sections that have files, then what was not measured, ruled out, and where all comes from."""
    parts = [("targets", "Targets", targets(sources, campaign))]
    parts += [(topic.key, topic.title, topic.build(sources)) for topic in topics()]
    missing = not_measured(sources)
    parts += [
        ("missing", "Not measured", (Listing(missing),) if missing else ()),
        ("ruled-out", "Ruled out", ruled_out(campaign)),
        ("provenance", "Provenance", provenance(sources)),
    ]
    first, last = sources.files[0].started, sources.files[-1].started
    return Document(
        title=title,
        verdict=sentence(sources),
        made=f"{len(sources.files)} result files, measured from {first} to {last} UTC.",
        sections=tuple(Section(key, name, blocks) for key, name, blocks in parts if blocks),
        warnings=tuple(warnings(sources)),
    )


def not_measured(sources: Sources) -> tuple[str, ...]:
    """What no file of these tells, and what to run for it."""
    return tuple(f"{topic.title}: {topic.needs}" for topic in topics() if not topic.build(sources))


def ruled_out(campaign: Campaign) -> tuple[Block, ...]:
    """Told in the campaign's file, not measured by the files of this report."""
    rows = tuple((one.what, one.evidence, one.retry) for one in campaign.ruled_out)
    return (Table(("what", "evidence", "try again when"), rows, "As the campaign's file tells it"),) if rows else ()
