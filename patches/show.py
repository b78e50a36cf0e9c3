"""The manifest as a table."""

from collections.abc import Sequence

from rich.table import Table

from k25serve.patches.manifest import Row
from k25serve.patches.manifest.judge import is_left_out, misfits
from k25serve.patches.manifest.modules import Modules


def rows_table(rows: Sequence[Row], modules: Modules | None) -> Table:
    """One line a row. modules: of the SGLang to compare with; None where there is none."""
    table = Table(title=f"SGLang {modules.version}" if modules else "SGLang is not installed", title_justify="left")
    for column in ("patch", "fits", "default", "output", "device", "SGLang", "for"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            row.name,
            _state(row, rows, modules),
            "always on" if row.required else ("on" if row.default else "off"),
            "LOSSY" if row.lossy else "the same",
            ", ".join(row.devices),
            ", ".join(row.versions),
            "\n".join((row.reason, *(f"{o.name} ({o.default}): {o.meaning}" for o in row.options))),
        )
    return table


def _state(row: Row, rows: Sequence[Row], modules: Modules | None) -> str:
    if modules is None:
        return "?"
    if is_left_out(row, rows, modules.version):
        return "left out"
    return "NO: see verify" if misfits(row, modules) else "yes"
