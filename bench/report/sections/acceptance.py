"""What of the drafts is accepted: by position, by class of prompts, by modality."""

from collections.abc import Iterator

from k25serve.bench.ab.result import AbData
from k25serve.bench.load.result import CellSummary, LoadData
from k25serve.bench.report.bodies import Gate, GpuParity
from k25serve.bench.report.document import Block, Figures, Table
from k25serve.bench.report.numbers import number, optional
from k25serve.bench.report.plots.chart import LineChart, Point, Series
from k25serve.bench.report.sources import Source, Sources

IMAGE_CLASSES = ("image", "images")


def by_position(sources: Sources) -> tuple[Block, ...]:
    """Share of verify steps that accepted the draft token at each position."""
    charts = []
    for source, cells in _classes(sources):
        told = [(name, cell) for name, cell in cells if cell.position_rate]
        for level in sorted({cell.cell.level for _, cell in told}):
            series = tuple(
                Series(name, tuple(Point(i, rate) for i, rate in enumerate(cell.position_rate, 1)))
                for name, cell in told
                if cell.cell.level == level
            )
            title = f"{source.label}, C={level}"
            charts.append(LineChart(title, "draft position", "share accepted", series, x_axis="near"))
    note = "Share of all verify steps, so a position counts only where those before it were accepted."
    return (Figures(tuple(charts), note),) if charts else ()


def by_class(sources: Sources) -> tuple[Block, ...]:
    """Accept length: 1 + accepted / verify steps, the target's own token included."""
    tables = []
    for source, cells in _classes(sources):
        rows = [
            (name, number(cell.accept_length), str(cell.requests), str(cell.output_tokens))
            for name, cell in cells
            if cell.accept_length is not None
        ]
        if rows:
            tables.append(Table(("class", "accept length", "requests", "tokens"), tuple(rows), source.label))
    tables += [_gate(source, data) for source, data in sources.of(Gate)]
    tables += [table for source, data in sources.of(GpuParity) if (table := _parity(source, data)) is not None]
    return tuple(tables)


def by_modality(sources: Sources) -> tuple[Block, ...]:
    """Text beside images; nothing where no prompt had an image."""
    tables = []
    for source, cells in _classes(sources):
        told = [(name, cell) for name, cell in cells if cell.accept_length is not None]
        if not any(cell.cell.prompt_class in IMAGE_CLASSES for _, cell in told):
            continue
        rows = [
            ("image" if cell.cell.prompt_class in IMAGE_CLASSES else "text", name, optional(cell.accept_length))
            for name, cell in told
        ]
        tables.append(Table(("modality", "class", "accept length"), tuple(sorted(rows)), source.label))
    return tuple(tables)


def _classes(sources: Sources) -> Iterator[tuple[Source, list[tuple[str, CellSummary]]]]:
    """Cells that have one class of prompts each; at the natural end where that was measured."""
    for source, load in sources.of(LoadData):
        single = [cell for cell in load.cells if cell.cell.phase == "natural"]
        cells = single or list(load.classes)
        yield source, [(_name(cell), cell) for cell in cells]
    for source, ab in sources.of(AbData):
        yield source, [(f"{arm}: {_name(cell)}", cell) for arm, cell in ab.classes]


def _name(cell: CellSummary) -> str:
    context = f", context {cell.cell.context_tokens}" if cell.cell.context_tokens else ""
    return f"{cell.cell.prompt_class}, C={cell.cell.level}{context}"


def _gate(source: Source, data: Gate) -> Table:
    groups = {**data.classes, **{f"thinking {word}": group for word, group in data.thinking.items()}}
    rows = tuple(
        (name, optional(group.accept_length), str(group.prompts), str(group.completion_tokens))
        for name, group in {**groups, "overall": data.overall}.items()
    )
    caption = f"{source.label}: {data.verdict}, model {data.model}"
    return Table(("class", "accept length", "prompts", "tokens"), rows, caption)


def _parity(source: Source, data: GpuParity) -> Table | None:
    rows = tuple(
        (f"{arm}, {what}", optional(found.accept_length), number(found.steps))
        for arm, one in data.arms.items()
        for what, found in (("text", one.acceptance_on_text), ("held-out chats", one.through_gateway))
        if found is not None
    )
    return Table(("arm, prompts", "accept length", "verify steps"), rows, source.label) if rows else None
