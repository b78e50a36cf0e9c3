"""Charts -> SVG and legend."""

from html import escape

from k25serve.bench.report.numbers import number, percent, ranged
from k25serve.bench.report.plots import canvas
from k25serve.bench.report.plots.chart import Chart, LineChart, Point, RatioChart, Series, StackedBars
from k25serve.bench.report.plots.marks import line, mark, marker
from k25serve.bench.report.plots.scale import Scale, fit, thin

ROW, NAMES, BAR_RIGHT = 30, 190, 500


def draw(chart: Chart) -> str:
    """The drawing, then its legend."""
    if isinstance(chart, LineChart):
        return _lines(chart)
    return _bars(chart) if isinstance(chart, StackedBars) else _ratios(chart)


def _lines(chart: LineChart) -> str:
    points = [point for one in chart.series for point in one.points]
    xs = sorted({point.x for point in points})
    left, right = canvas.LEFT + 10, canvas.RIGHT - 10
    if chart.x_axis == "near":
        x = Scale(min(xs) - 0.5, max(xs) + 0.5, False, left, right)
    else:
        x = fit(xs, left, right, log=chart.x_axis == "log")
    ends = [v for point in points for v in (point.y, point.low, point.high) if v is not None]
    y = fit(ends, canvas.BOTTOM, canvas.TOP)
    ticks = x.ticks() if chart.x_axis == "zero" else thin(xs)
    drawn = "".join(_series(one, index, x, y) for index, one in enumerate(chart.series))
    inside = canvas.x_axis(x, ticks, chart.x) + canvas.y_axis(y, _logged(chart.y, y)) + canvas.frame() + drawn
    swatches = [_swatch(one, index) for index, one in enumerate(chart.series)]
    return canvas.svg(inside, chart.title) + canvas.legend(swatches)


def _logged(name: str, scale: Scale) -> str:
    return f"{name} (log)" if scale.log else name


def _series(one: Series, index: int, x: Scale, y: Scale) -> str:
    look = mark(index, one.predicted)
    places = [(x.at(point.x), y.at(point.y)) for point in one.points]
    parts = [line(places, look)]
    for point, (px, py) in zip(one.points, places, strict=True):
        if point.low is not None and point.high is not None:
            low, high = y.at(point.low), y.at(point.high)
            path = f"M{px:.1f} {low:.1f}V{high:.1f}M{px - 4:.1f} {low:.1f}h8M{px - 4:.1f} {high:.1f}h8"
            parts.append(f'<path d="{path}" stroke="{look.colour}" stroke-width="1.4" fill="none"/>')
        parts.append(marker(px, py, look, escape(_told(one.name, point))))
    return "".join(parts)


def _told(name: str, point: Point) -> str:
    return f"{name}, {point.label or format(point.x, 'g')}: {ranged(point.y, point.low, point.high)}"


def _swatch(one: Series, index: int) -> tuple[str, str]:
    look = mark(index, one.predicted)
    return line([(0, 7), (26, 7)], look) + marker(13, 7, look), one.name


def _bars(chart: StackedBars) -> str:
    scale = fit([sum(bar.values) for bar in chart.bars], NAMES, BAR_RIGHT, log=False)
    parts = []
    for row, bar in enumerate(chart.bars):
        top, left = row * ROW + 6.0, scale.at(0)
        parts.append(canvas.label_at(NAMES - 8, top + 14, bar.name, "end"))
        for name, colour, value in zip(chart.segments, chart.colours, bar.values, strict=True):
            wide = scale.at(value) - scale.at(0)
            if wide <= 0:
                continue
            note = escape(f"{bar.name}, {name}: {number(value)} {chart.unit}")
            parts.append(
                f'<rect class="segment" x="{left:.1f}" y="{top}" width="{wide:.1f}" height="20" fill="{colour}">'
                f"<title>{note}</title></rect>"
            )
            left += wide
        parts.append(canvas.label_at(left + 6, top + 14, f"{number(sum(bar.values))}"))
    shown = [any(bar.values[i] > 0 for bar in chart.bars) for i in range(len(chart.segments))]
    swatches = [
        (f'<rect class="segment" x="6" width="14" height="14" fill="{colour}"/>', name)
        for name, colour, there in zip(chart.segments, chart.colours, shown, strict=True)
        if there
    ]
    return canvas.svg("".join(parts), chart.title, len(chart.bars) * ROW + 6) + canvas.legend(swatches)


def _ratios(chart: RatioChart) -> str:
    ends = [v for one in chart.rows for v in (one.value, one.low, one.high, 1.0) if v is not None]
    most = max(max(ends), 1 / min(ends), 1.01)
    scale = Scale(1 / most, most, True, NAMES, BAR_RIGHT)
    height = len(chart.rows) * ROW + 34
    middle = scale.at(1)
    parts = [f'<path class="axis" d="M{middle:.1f} 0V{height - 28}"/>']
    for value in (1 / most, 1.0, most):
        text = "no difference" if value == 1 else percent(value)
        parts.append(canvas.label_at(scale.at(value), height - 8, text, "middle"))
    for row, one in enumerate(chart.rows):
        y = row * ROW + 15.0
        parts.append(canvas.label_at(NAMES - 8, y + 4, one.name, "end"))
        look = mark({"faster": 0, "slower": 1}.get(one.outcome, 2), one.outcome == "not settled")
        if one.low is not None and one.high is not None:
            left, right = scale.at(one.low), scale.at(one.high)
            path = f"M{left:.1f} {y}H{right:.1f}M{left:.1f} {y - 5}v10M{right:.1f} {y - 5}v10"
            parts.append(f'<path d="{path}" stroke="{look.colour}" stroke-width="2" fill="none"/>')
        note = escape(f"{one.name}: {percent(one.value)}, {one.outcome}")
        parts.append(marker(scale.at(one.value), y, look, note))
        parts.append(canvas.label_at(BAR_RIGHT + 8, y + 4, percent(one.value)))
    return canvas.svg("".join(parts), chart.title, height)
