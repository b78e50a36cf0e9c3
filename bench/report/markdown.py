"""A document as Markdown: charts become their tables."""

import re

from k25serve.bench.report.document import Block, Document, Listing, Section, Table, Text

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~!])")


def render(document: Document) -> str:
    """The file's text. Text of the document is escaped, so none of it becomes markup."""
    parts = [f"# {safe(document.title)}", f"**{safe(document.verdict)}**", safe(document.made)]
    parts += [f"> {safe(line)}" for line in document.warnings]
    parts += [_section(one) for one in document.sections]
    return "\n\n".join(parts) + "\n"


def safe(text: str) -> str:
    """On one line, with Markdown's and HTML's signs escaped."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _section(one: Section) -> str:
    return "\n\n".join([f"## {safe(one.title)}", *map(_block, one.blocks)])


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return safe(block.text)
    if isinstance(block, Listing):
        return "\n".join(f"- {safe(item)}" for item in block.items)
    if isinstance(block, Table):
        return _table(block)
    charts = [_table(Table(*chart.table(), caption=chart.title)) for chart in block.charts]
    return "\n\n".join([*charts, *([safe(block.note)] if block.note else [])])


def _table(table: Table) -> str:
    lines = [f"{safe(table.caption)}\n"] if table.caption else []
    lines.append(_row(table.head))
    lines.append(f"|{'|'.join('---' if words else '---:' for words in table.words())}|")
    lines += map(_row, table.rows)
    return "\n".join(lines)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(safe, cells))} |"
