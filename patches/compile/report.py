"""A gate's report as a table for people and as JSON for programs."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from k25serve.patches.compile.gate import Report


def show(report: Report, console: Console) -> None:
    """Print one line a variant, then what is wrong, each with the variant's name."""
    title = f"{report.arch}, Triton {report.triton}: at most {report.limit:,} bytes of shared memory a block"
    table = Table(title=title, title_justify="left")
    table.add_column("variant", no_wrap=True)
    for heading in ("warps", "stages", "shared", "registers", "spill out/in", "mma", "cp.async", "ahead"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in report.rows:
        r = row.resources
        table.add_row(
            row.name,
            str(r.warps),
            str(r.stages),
            f"{r.shared:,}",
            str(r.registers),
            f"{r.spill_stores}/{r.spill_loads}",
            str(r.products),
            str(r.copies),
            str(r.ahead),
            "[red]fails[/]" if row.problems else "default" if row.default else "as recorded" if row.known else "new",
        )
    console.print(table)
    for row in report.rows:
        for problem in row.problems:
            console.print(f"[red]{row.name}[/]: {problem}", highlight=False)
    console.print(f"{len(report.rows)} variants in {report.seconds} s: {'pass' if report.passed else 'FAIL'}")


def as_json(report: Report) -> str:
    """The report, every field of it."""
    return json.dumps({**asdict(report), "passed": report.passed}, indent=2)
