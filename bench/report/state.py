"""The campaign's state as a document: what is known, done, running and next. Pure but for folders that still run."""

from collections.abc import Iterator

from k25serve.bench.ab.result import AbData
from k25serve.bench.load.result import LoadData
from k25serve.bench.report.bodies import Compared, Gate, GpuParity, GpuSpeed, GpuTrace, Plan, PlanChecks
from k25serve.bench.report.build import not_measured, ruled_out
from k25serve.bench.report.campaign import Campaign
from k25serve.bench.report.document import Document, Listing, Section, Table
from k25serve.bench.report.numbers import number, percent
from k25serve.bench.report.sections.provenance import provenance, warnings
from k25serve.bench.report.sections.targets import targets
from k25serve.bench.report.sections.verdict import compared_sentence, sentence
from k25serve.bench.report.sources import Source, Sources, is_valid, progress
from k25serve.bench.trace.report import TraceReport
from k25serve.bench.trace.table import headline_text


def state(sources: Sources, campaign: Campaign) -> Document:
    """Sections with nothing in them say so: a reader must not wonder whether they were forgotten."""
    done = tuple((one.label, "" if one.result is None else one.result.command) for one in sources.files)
    running = tuple("; ".join(progress(folder)) for folder in sources.unfinished)
    next_up = (*campaign.next, *(f"Not measured yet: {line}" for line in not_measured(sources)))
    discoveries = (*discovered(sources), *(f"Ruled out: {one.what}. {one.evidence}" for one in campaign.ruled_out))
    return Document(
        title="Campaign state",
        verdict=sentence(sources),
        made=f"From {len(sources.files)} result files, the newest of {sources.files[-1].started} UTC.",
        warnings=tuple(warnings(sources)),
        sections=(
            Section("goal", "Goal", (Listing((campaign.goal,)), *targets(sources, campaign))),
            Section("constraints", "Constraints", (_listing(campaign.constraints),)),
            Section("discoveries", "Discoveries", (_listing(discoveries),)),
            Section("ruled-out", "Ruled out, and when to try again", ruled_out(campaign) or (_listing(()),)),
            Section("done", "Done", (Table(("measured", "command"), done),)),
            Section("running", "Running", (_listing(running),)),
            Section("next", "Next", (_listing(next_up),)),
            Section("files", "Files", provenance(sources)),
        ),
    )


def _listing(items: tuple[str, ...]) -> Listing:
    return Listing(items or ("nothing",))


def discovered(sources: Sources) -> Iterator[str]:
    """One line a file that tells something in a line."""
    for one in sources.files:
        told = _told(one)
        if told:
            yield f"{one.label}: {told}"


def _told(one: Source) -> str:
    body = one.body
    if isinstance(body, AbData):
        return body.verdict
    if not is_valid(body):
        return "INVALID, no figures"
    if isinstance(body, LoadData):
        best = max(body.cells, key=lambda cell: cell.tokens_per_s, default=None)
        return "" if best is None else f"at most {number(best.tokens_per_s)} tok/s, at {best.cell.label}"
    if isinstance(body, Compared):
        return compared_sentence(body)
    if isinstance(body, TraceReport):
        return headline_text(body)
    if isinstance(body, GpuTrace):
        shown = ((arm, mode) for arm, found in body.arms.items() for mode in found.report.ranks[0].modes)
        return "; ".join(f"{arm} {mode.mode} {number(mode.busy_ms)} ms busy" for arm, mode in shown)
    if isinstance(body, Gate):
        length = body.overall.accept_length
        return f"{body.verdict}, accept length {'not told' if length is None else number(length)} of {body.model}"
    return _gpu_or_plan(body)


def _gpu_or_plan(body: object) -> str:
    if isinstance(body, GpuParity):
        return "; ".join(f"{name}: {one.equal} of {one.prompts} equal" for name, one in body.greedy.items())
    if isinstance(body, GpuSpeed) and body.predicted:
        gains = sorted(row.speedup for row in body.predicted)
        return f"EAGLE-3 over plain decode {percent(gains[0])} to {percent(gains[-1])} by batch and prefix"
    if isinstance(body, PlanChecks):
        return "; ".join(f"{check.name}: mean error {check.mean_error:.1%}" for check in body.checks)
    if isinstance(body, Plan):
        gains = sorted(cell.speedup for cell in body.best)
        if gains:
            name = body.calibration.name
            return f"predicted for {name}: best gains {percent(gains[0])} to {percent(gains[-1])}, not measured"
    return ""
