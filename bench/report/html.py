"""A document as one HTML page. Its policy lets it load nothing at all; its one style sheet is inside, known by hash."""

import base64
import hashlib
from html import escape
from importlib.resources import files

from k25serve.bench.report.document import Block, Document, Listing, Section, Table, Text
from k25serve.bench.report.plots.chart import Chart
from k25serve.bench.report.plots.draw import draw


def render(document: Document) -> str:
    """The page's text. All text of the document is escaped."""
    style = files("k25serve.bench.report").joinpath("style.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{one.key}">{escape(one.title)}</a>' for one in document.sections)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Without an icon of its own a page asks the server for one.
        '<link rel="icon" href="data:,">',
        f"<title>{escape(document.title)}</title><style>{style}</style></head><body>",
        f"<h1>{escape(document.title)}</h1>",
        f'<p class="verdict">{escape(document.verdict)}</p>',
        f'<p class="made">{escape(document.made)}</p>',
        *(f'<p class="warning">{escape(line)}</p>' for line in document.warnings),
        f"<nav>{links}</nav>",
        *map(_section, document.sections),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _section(one: Section) -> str:
    blocks = "\n".join(map(_block, one.blocks))
    return f'<section id="{escape(one.key)}"><h2>{escape(one.title)}</h2>\n{blocks}</section>'


def _block(block: Block) -> str:
    if isinstance(block, Text):
        kind = "" if block.tone == "plain" else f' class="{block.tone}"'
        return f"<p{kind}>{escape(block.text)}</p>"
    if isinstance(block, Listing):
        return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Table):
        return _table(block)
    note = f'<p class="note">{escape(block.note)}</p>' if block.note else ""
    return f'<div class="figures">{"".join(map(_figure, block.charts))}</div>{note}'


def _figure(chart: Chart) -> str:
    head, rows = chart.table()
    data = f"<details><summary>data</summary>{_table(Table(head, rows))}</details>"
    return f"<figure><figcaption>{escape(chart.title)}</figcaption>{draw(chart)}{data}</figure>"


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    words = table.words()
    head, *rows = (_row(kind, row, words) for kind, row in [("th", table.head), *(("td", row) for row in table.rows)])
    return f'<div class="scroll"><table>{caption}<thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _row(kind: str, cells: tuple[str, ...], words: tuple[bool, ...]) -> str:
    shown = (
        f'<{kind} class="words">{escape(cell)}</{kind}>' if text else f"<{kind}>{escape(cell)}</{kind}>"
        for cell, text in zip(cells, words, strict=True)
    )
    return f"<tr>{''.join(shown)}</tr>"
