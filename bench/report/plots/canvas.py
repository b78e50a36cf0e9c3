"""The parts that all charts share: frame, ticks, labels, legend. Colours of ink and page come from the style sheet."""

from collections.abc import Sequence
from html import escape

from k25serve.bench.report.numbers import number
from k25serve.bench.report.plots.scale import Scale

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 548, 12, 276


def svg(inside: str, title: str, height: float = HEIGHT, width: float = WIDTH) -> str:
    """A drawing with its name for those who cannot see it; it scales down with the page."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width} {height:.0f}">{inside}</svg>'
    )


def x_axis(scale: Scale, ticks: Sequence[float], label: str) -> str:
    """Below; lines of the grid upwards."""
    parts = [label_at((LEFT + RIGHT) / 2, BOTTOM + 42, label, "middle")]
    for value in ticks:
        x = scale.at(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{BOTTOM}"/>')
        parts.append(label_at(x, BOTTOM + 18, plain(value), "middle"))
    return "".join(parts)


def y_axis(scale: Scale, label: str) -> str:
    """At the left; lines of the grid to the right."""
    middle = (TOP + BOTTOM) / 2
    parts = [
        f'<text class="ink" x="14" y="{middle:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle:.0f})">{escape(label)}</text>'
    ]
    for value in scale.ticks():
        y = scale.at(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>')
        parts.append(label_at(LEFT - 7, y + 4, plain(value), "end"))
    return "".join(parts)


def frame() -> str:
    """The two axes' lines."""
    return f'<path class="axis" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>'


def label_at(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Text in the page's ink."""
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def plain(value: float) -> str:
    """A tick's text: whole numbers without a dot."""
    return f"{value:,.0f}" if value == round(value) else number(value).rstrip("0")


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Of (swatch as SVG content of 26 x 14, name)."""
    items = "".join(
        f'<li><svg class="swatch" viewBox="0 0 26 14" aria-hidden="true">{swatch}</svg>{escape(name)}</li>'
        for swatch, name in entries
    )
    return f'<ul class="legend">{items}</ul>'
