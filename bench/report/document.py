"""A report before it is written: sections of text, tables and figures, the same for HTML and Markdown."""

from dataclasses import dataclass, field
from typing import Literal

from k25serve.bench.report.numbers import is_numeric
from k25serve.bench.report.plots.chart import Chart


@dataclass(frozen=True, slots=True)
class Text:
    """One paragraph. note: it says how to read what is beside it."""

    text: str
    tone: Literal["plain", "note"] = "plain"


@dataclass(frozen=True, slots=True)
class Listing:
    """Points of a list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """head: column names, the first column is text. rows: as many cells each."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def words(self) -> tuple[bool, ...]:
        """Of each column, whether it is read as text: it starts at the left."""
        return tuple(i == 0 or not all(is_numeric(row[i]) for row in self.rows) for i in range(len(self.head)))


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts that belong side by side. `note` is below them all."""

    charts: tuple[Chart, ...]
    note: str = ""


Block = Text | Listing | Table | Figures


@dataclass(frozen=True, slots=True)
class Section:
    """`key`: for the page's anchors."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """verdict: the one sentence that comes first. warnings: what makes figures not comparable or not usable."""

    title: str
    verdict: str
    made: str
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = field(default=())
