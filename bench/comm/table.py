"""A measurement of the links in the terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from k25serve.bench.comm.report import CommReport, Run
from k25serve.bench.comm.variants import DEFAULT


def show(report: CommReport, console: Console) -> None:
    """Print the host's findings and every run."""
    for line in report.host.findings:
        console.print(line, markup=False)
    if report.host.topology:
        console.print(report.host.topology, markup=False, highlight=False)
    for run in report.runs:
        console.print(run_line(run), markup=False, highlight=False)
        for end in run.ends:
            if end.outcome != "done":
                console.print(f"  rank {end.rank} {end.outcome} at: {end.stage}", markup=False, highlight=False)
                for line in end.log:
                    console.print(f"    {line}", markup=False, highlight=False)
        if run.samples:
            console.print(_samples(run))
        for fit in run.fits:
            console.print(
                f"  {fit.operation}{' in graphs' if fit.graph else ''}: {fit.alpha_us:.1f} us + "
                f"{fit.beta_us_per_kib:.4f} us/KiB, off by {fit.residual_rms:.1%} (worst {fit.residual_worst:.1%}) "
                f"over {fit.smallest} to {fit.largest} B",
                markup=False,
                highlight=False,
            )


def run_line(run: Run) -> str:
    """A run in one line."""
    what = f"{run.plan.path} over {run.plan.backend}{' ' + run.nccl if run.nccl else ''}, {run.ranks} ranks"
    how = f"variant {run.variant}" + "".join(f" {name}={value}" for name, value in run.environment.items())
    if run.passed:
        return f"passed: {what}, {how}, {run.seconds:.1f} s"
    word = f"HUNG, ended after {run.limit_s:.0f} s" if run.hung else "FAILED"
    left = [str(end.rank) for end in run.ends if end.unkillable]
    stuck = f"; ranks {', '.join(left)} could not be killed and hang in the driver" if left else ""
    return f"{word}: {what}, {how}{stuck}"


def advice(runs: tuple[Run, ...]) -> str:
    """What a failed preflight means, in one line; empty where the environment as it is passed."""
    first, *others = runs
    if first.passed:
        return ""
    good = [run for run in others if run.passed]
    if not good:
        tried = ", ".join(run.variant for run in others) or "nothing else"
        return f"collectives do not work here; tried besides {DEFAULT}: {tried}. See the IOMMU line and the ranks' logs"
    listed = "; ".join(
        f"{run.variant}: export {' '.join(f'{name}={value}' for name, value in run.environment.items())}"
        f" ({_bandwidth(run)})"
        for run in good
    )
    return f"collectives do not work as the environment is. Nothing was changed. What passed: {listed}"


def _bandwidth(run: Run) -> str:
    largest = max(run.samples, key=lambda sample: sample.nbytes, default=None)
    if largest is None:
        return "no sample"
    return f"{largest.nbytes / largest.median_us / 1000:.1f} GB/s at {largest.nbytes} B"


def _samples(run: Run) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("operation")
    for name in ("bytes", "median us", "p10", "p90", "GB/s"):
        table.add_column(name, justify="right")
    for one in run.samples:
        table.add_row(
            one.operation + (" (graph)" if one.graph else ""),
            str(one.nbytes),
            f"{one.median_us:.1f}",
            f"{one.p10_us:.1f}",
            f"{one.p90_us:.1f}",
            f"{one.nbytes / one.median_us / 1000:.3f}",
        )
    return table
