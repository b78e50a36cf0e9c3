"""What a chart shows. `table` gives the same figures as text, so nobody depends on the picture."""

from dataclasses import dataclass
from typing import Literal

from k25serve.bench.report.numbers import number, percent, ranged

TableText = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


@dataclass(frozen=True, slots=True)
class Point:
    """low, high: its interval, None where there is none. label: for points that are not told by x alone."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """One line. predicted: drawn dashed and hollow."""

    name: str
    points: tuple[Point, ...]
    predicted: bool = False


@dataclass(frozen=True, slots=True)
class LineChart:
    """x_axis: log for what doubles, such as concurrency; near for small numbers that are counted; else from zero."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    x_axis: Literal["log", "near", "zero"] = "log"

    def table(self) -> TableText:
        """A row an x and a column a series; where points have labels, a row a point."""
        if any(point.label for one in self.series for point in one.points):
            rows = [
                (one.name, point.label, number(point.x), ranged(point.y, point.low, point.high))
                for one in self.series
                for point in one.points
            ]
            return ("series", "at", self.x, self.y), tuple(rows)
        at = [{point.x: point for point in one.points} for one in self.series]
        found = []
        for x in sorted({x for points in at for x in points}):
            cells = (points.get(x) for points in at)
            shown = ("-" if one is None else ranged(one.y, one.low, one.high) for one in cells)
            found.append((f"{x:g}", *shown))
        return (self.x, *(one.name for one in self.series)), tuple(found)


@dataclass(frozen=True, slots=True)
class Bar:
    """values: one a segment of the chart."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StackedBars:
    """Bars that lie, one below the other. colours: one a segment."""

    title: str
    unit: str
    segments: tuple[str, ...]
    colours: tuple[str, ...]
    bars: tuple[Bar, ...]

    def table(self) -> TableText:
        """A row a bar, a column a segment, and their sum."""
        rows = [(bar.name, *map(number, bar.values), number(sum(bar.values))) for bar in self.bars]
        return (self.unit, *self.segments, "sum"), tuple(rows)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A gain with its interval; above 1 is better. outcome: as it was judged."""

    name: str
    value: float
    low: float | None
    high: float | None
    outcome: str


@dataclass(frozen=True, slots=True)
class RatioChart:
    """Gains beside the line of no difference."""

    title: str
    rows: tuple[Ratio, ...]

    def table(self) -> TableText:
        """Gains as changes in percent."""
        rows = []
        for one in self.rows:
            told = one.low is not None and one.high is not None
            interval = f"{percent(one.low)} to {percent(one.high)}" if told else "unbounded"  # type: ignore[arg-type]
            rows.append((one.name, percent(one.value), interval, one.outcome))
        return ("", "gain of B", "interval", "judged"), tuple(rows)


Chart = LineChart | StackedBars | RatioChart
