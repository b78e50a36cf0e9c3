"""A report as one HTML page without any outside file: a stacked bar for each step, and a timeline of one step."""

from html import escape

from k25serve.bench.trace.classify import CLASSES
from k25serve.bench.trace.report import ModeReport, RankReport, TraceReport
from k25serve.bench.trace.table import headline_text, wait_text

# Colour-blind safe for the classes that matter most (Okabe and Ito); greys for the rest.
COLOURS = {
    "all_reduce": "#d55e00",
    "collective": "#cc79a7",
    "attention": "#0072b2",
    "moe_gemm": "#009e73",
    "gemm": "#56b4e9",
    "norm": "#f0e442",
    "sampling": "#e69f00",
    "copy": "#888888",
    "cast": "#000000",
    "draft": "#7b3294",
    "other": "#cccccc",
}
WIDTH, BAR_HEIGHT, LANE = 1100, 220, 26
STEPS_AT_MOST = 400  # wider than a screen; the JSON has all of them
STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1160px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.5em 0 1.5em}
td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{background:#fafafa;border:1px solid #ddd}
.legend span{display:inline-block;margin-right:1em}
.legend i{display:inline-block;width:1em;height:1em;margin-right:.3em;vertical-align:-.15em}
.warning{color:#a40}.headline{font-size:1.15em;font-weight:600}
"""


def render(report: TraceReport) -> str:
    """The page's text."""
    shown = next(rank for rank in report.ranks if rank.rank == report.timeline.rank)
    mode = next(one for one in shown.modes if one.mode == report.mode)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(report.title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(report.title)}</h1>",
        f'<p class="headline">{escape(headline_text(report))}</p>',
        f"<p>{escape(wait_text(report))}</p>",
        *(f'<p class="warning">{escape(line)}</p>' for line in report.warnings),
        _legend(),
        f"<h2>Kernel time of each {escape(report.mode)} step by class, {escape(shown.rank)}</h2>",
        _bars(mode),
        f"<h2>Timeline of a step of median length, {escape(report.timeline.rank)} {escape(report.timeline.label)}</h2>",
        _timeline(report),
        *(f"<h2>{escape(one.mode)}, {escape(shown.rank)}</h2>{_classes(one)}" for one in shown.modes),
        "<h2>Ranks</h2>",
        _ranks(report.ranks, report.mode),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _legend() -> str:
    items = (f'<span><i style="background:{COLOURS[name]}"></i>{name}</span>' for name in CLASSES)
    return f'<p class="legend">{"".join(items)}</p>'


def _bars(mode: ModeReport) -> str:
    steps = mode.step_ms_by_class[:STEPS_AT_MOST]
    tallest = max((sum(step) for step in steps), default=0.0) or 1.0
    width = WIDTH / len(steps)
    bars = []
    for index, step in enumerate(steps):
        top = float(BAR_HEIGHT)
        for name, value in zip(CLASSES, step, strict=True):
            height = value / tallest * BAR_HEIGHT
            if height > 0.01:
                top -= height
                note = f"step {index}: {name} {value:.3f} ms"
                bars.append(_box(index * width, top, max(width * 0.9, 0.5), height, COLOURS[name], note))
    note = "" if len(mode.step_ms_by_class) <= STEPS_AT_MOST else f"<p>the first {STEPS_AT_MOST} steps</p>"
    return f"{_svg(BAR_HEIGHT, ''.join(bars))}<p>full height: {tallest:.2f} ms of summed kernel time</p>{note}"


def _timeline(report: TraceReport) -> str:
    events = report.timeline.events
    streams = sorted({event.stream for event in events})
    length = max((event.start_us + event.dur_us for event in events), default=0.0) or 1.0
    boxes = [
        f'<text x="2" y="{lane * LANE + 10}" font-size="10" fill="#666">stream {stream}</text>'
        for lane, stream in enumerate(streams)
    ]
    for event in events:
        left, wide = event.start_us / length * WIDTH, event.dur_us / length * WIDTH
        note = f"{event.name}\n{event.kernel_class}, {event.start_us:.1f} us + {event.dur_us:.1f} us"
        top = streams.index(event.stream) * LANE + 12
        boxes.append(_box(left, top, max(wide, 0.3), 12, COLOURS[event.kernel_class], note))
    return f"{_svg(len(streams) * LANE + 4, ''.join(boxes))}<p>full width: {length / 1000:.3f} ms</p>"


def _box(left: float, top: float, width: float, height: float, colour: str, note: str) -> str:
    return (
        f'<rect x="{left:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{colour}">'
        f"<title>{escape(note)}</title></rect>"
    )


def _svg(height: float, inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f"{inside}</svg>"
    )


def _classes(mode: ModeReport) -> str:
    rows = [
        [
            row.name,
            f"{row.launches:.0f}",
            f"{row.summed_ms:.3f}",
            f"{row.share_of_kernel_sum:.1%}",
            f"{row.union_ms:.3f}",
            f"{row.exposed_ms:.3f}",
            f"{row.hidden_ms:.3f}",
        ]
        for row in mode.classes
        if row.launches
    ]
    return _table(["class", "launches", "sum ms", "share of sum", "union ms", "exposed ms", "hidden ms"], rows)


def _ranks(ranks: tuple[RankReport, ...], mode: str) -> str:
    rows = [
        [
            rank.rank,
            f"{one.span_ms:.3f}",
            f"{one.kernel_sum_ms:.3f}",
            f"{one.all_reduce_ms:.3f}",
            f"{one.headline.share_of_kernel_sum:.1%}",
        ]
        for rank in ranks
        for one in rank.modes
        if one.mode == mode
    ]
    return _table(["rank", "span ms", "kernel sum ms", "all-reduce ms", "share of sum"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"
