"""What the links between GPUs cost."""

from k25serve.bench.comm.report import CommReport
from k25serve.bench.report.document import Block, Table
from k25serve.bench.report.numbers import number
from k25serve.bench.report.sources import Sources


def links(sources: Sources) -> tuple[Block, ...]:
    """The fit of each run: a fixed time a call and one a KiB. Runs that failed are told."""
    tables = []
    for source, data in sources.of(CommReport):
        rows: list[tuple[str, ...]] = []
        for run in data.runs:
            name = f"{run.variant}, {run.ranks} ranks"
            if not run.passed:
                rows.append((name, "hung" if run.hung else "failed", "-", "-", "-"))
            rows += [
                (name, fit.operation, number(fit.alpha_us), number(fit.beta_us_per_kib), f"{fit.residual_rms:.1%}")
                for fit in run.fits
            ]
        if rows:
            tables.append(Table(("run", "operation", "us a call", "us a KiB", "error rms"), tuple(rows), source.label))
    return tuple(tables)
