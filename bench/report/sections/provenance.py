"""Which files, made how, where and of what; what mixes engines, models or machines is told."""

from collections.abc import Iterator

from k25serve.bench.ab.result import AbData
from k25serve.bench.load.result import LoadData
from k25serve.bench.report.bodies import Gate, GpuSpeed, GpuTrace, Plan
from k25serve.bench.report.document import Block, Listing, Table
from k25serve.bench.report.sources import Source, Sources, is_valid, machine_name

HASH = 12


def provenance(sources: Sources) -> tuple[Block, ...]:
    """Two rows a file, what it is of and how it was made, then notes."""
    notes = tuple(
        f"{one.path.name} ({one.kind}): {one.result.notes}" for one in sources.files if one.result and one.result.notes
    )
    tables = (
        Table(("file", "started, UTC", "s", "machine", "engine", "model"), tuple(map(_what, sources.files))),
        Table(("file", "git", "sha256", "command"), tuple(map(_how, sources.files))),
    )
    return (*tables, Listing(notes)) if notes else tables


def _what(one: Source) -> tuple[str, ...]:
    facts = (", ".join(engines(one)) or "-", ", ".join(models(one)) or "-")
    if one.result is None:
        return _name(one), one.started, "-", "-", *facts
    return _name(one), one.started, f"{one.result.seconds:.0f}", machine_name(one.result.machine), *facts


def _how(one: Source) -> tuple[str, ...]:
    digest = one.sha256[:HASH]
    if one.result is None:
        return _name(one), "-", digest, "not told: a drafter gate's own file"
    changed = " + changes" if one.result.dirty else ""
    return _name(one), f"{one.result.git[:HASH]}{changed}", digest, one.result.command


def _name(one: Source) -> str:
    return f"{one.kind} {one.path.name}"


def warnings(sources: Sources) -> Iterator[str]:
    """Runs that are no measurement; more than one model, engine or machine among what is shown as measured."""
    for one in sources.files:
        if isinstance(one.body, LoadData | AbData):
            for finding in one.body.findings:
                if finding.severity == "invalid":
                    left = "its figures are left out" if not is_valid(one.body) else "see its findings"
                    yield f"INVALID {one.label}: {finding.code}, {finding.where}: {finding.detail}; {left}"
    measured = [one for one in sources.files if engines(one)]
    for what, found in (
        ("models", {name for one in measured for name in models(one)}),
        ("engines", {name for one in measured for name in engines(one)}),
        ("machines", {machine_name(one.result.machine) for one in measured if one.result}),
    ):
        if len(found) > 1:
            yield f"Several {what} are mixed here, compare figures only within one of them: {'; '.join(sorted(found))}"


def engines(one: Source) -> tuple[str, ...]:
    """Engines that were measured, with their versions; none for what measured no engine."""
    if isinstance(one.body, LoadData):
        return (_engine(one.body.server),)
    if isinstance(one.body, AbData):
        return tuple(dict.fromkeys(_engine(arm.server) for arm in one.body.arms))
    if one.kind in ("gpu-speed", "gpu-trace", "gpu-parity") and one.result is not None:
        return (f"sglang {one.result.versions.get('sglang', 'of unknown version')}",)
    return ()


def _engine(server: dict[str, str]) -> str:
    return f"{server.get('owned_by', 'engine')} {server.get('version', 'of unknown version')}"


def models(one: Source) -> tuple[str, ...]:
    """Models that were asked, or planned for."""
    if isinstance(one.body, LoadData | Gate):
        return (one.body.model,)
    if isinstance(one.body, AbData):
        return tuple(dict.fromkeys(arm.model for arm in one.body.arms if arm.model))
    if isinstance(one.body, Plan):
        return (f"{one.body.calibration.model} (planned)",)
    if isinstance(one.body, GpuSpeed | GpuTrace):
        return ("one rank of Kimi-K2.5 at TP=8, six layers, random weights",)
    return ("kimi-k2.5-tiny",) if one.kind == "gpu-parity" else ()
