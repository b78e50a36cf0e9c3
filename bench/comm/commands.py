"""`bench comm`: measure the links, or see that they work at all."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from k25serve.bench.default_group import DefaultGroup

if TYPE_CHECKING:
    from k25serve.bench.comm.report import Run
    from k25serve.bench.provenance import Recorder

app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=False,
    help="Latency of all-reduce and all-to-all between ranks that are started here, each run in its own processes and "
    "time box. NCCL where there are GPUs, gloo on the CPU. `bench comm` is `bench comm run`.",
)

Ranks = Annotated[int | None, typer.Option(min=2, help="Default: one a GPU, or 2 on the CPU.")]
Backend = Annotated[str, typer.Option(metavar="auto|nccl|gloo")]
Limit = Annotated[float, typer.Option(min=1, help="Seconds for each run; then its ranks are killed.")]
Results = Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Write a result file, under DIR/comm/.")]


@app.command()
def run(
    ranks: Ranks = None,
    backend: Backend = "auto",
    limit: Limit = 180.0,
    results: Results = None,
    paths: Annotated[
        list[str] | None,
        typer.Option(
            "--path",
            metavar="NAME",
            help="torch, sglang-nccl, sglang-custom, sglang-pcie-ipc; may be repeated. SGLang's need SGLang and two or "
            "more GPUs, and were not run by the project's own tests.",
        ),
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="NAME", help="default, p2p-off, cumem, p2p-sys, protocols; may be repeated."),
    ] = None,
    sizes: Annotated[list[int] | None, typer.Option("--size", metavar="BYTES", help="May be repeated.")] = None,
    graphs: Annotated[bool, typer.Option(help="Also from CUDA graphs, as engines decode (NCCL only).")] = True,
) -> None:
    """All-reduce and all-to-all over message size, with a start-up + per-byte fit and its residual."""
    from k25serve.bench.comm import sweep
    from k25serve.bench.comm.report import Plan
    from k25serve.bench.comm.variants import DEFAULT, VARIANTS
    from k25serve.bench.provenance import Recorder

    recorder = Recorder("comm")
    backend, count = _where(backend, ranks)
    _known("--variant", variants or [], VARIANTS)
    _known("--path", paths or [], ("torch", "sglang-nccl", "sglang-custom", "sglang-pcie-ipc"))
    plans = [
        Plan.model_validate(
            {
                "backend": backend,
                "path": path,
                "operations": ("all_reduce", "all_to_all") if path == "torch" else ("all_reduce",),
                "sizes": sizes or sweep.SIZES,
                "graphs": graphs and backend == "nccl",
            }
        )
        for path in paths or ["torch"]
    ]
    runs = sweep.sweep(plans, count, variants or [DEFAULT], limit, say=_say)
    _finish(recorder, runs, results)
    if not all(one.passed for one in runs):
        raise typer.Exit(1)


@app.command()
def preflight(ranks: Ranks = None, backend: Backend = "auto", limit: Limit = 60.0, results: Results = None) -> None:
    """A short all-reduce before any weight is loaded. If it hangs, says which NCCL variant works; changes nothing.

    Exit code 0 only where it passes in the environment as it is.
    """
    from k25serve.bench.comm.sweep import preflight as check
    from k25serve.bench.comm.table import advice
    from k25serve.bench.provenance import Recorder

    recorder = Recorder("comm")
    backend, count = _where(backend, ranks)
    runs = check(count, backend, limit, say=_say)
    _finish(recorder, runs, results)
    if line := advice(runs):
        typer.echo(line, err=True)
        raise typer.Exit(1)


def _where(backend: str, ranks: int | None) -> tuple[str, int]:
    from k25serve.bench.comm.host import gpu_count
    from k25serve.server.errors import UserError

    gpus = gpu_count()
    if backend == "auto":
        backend = "nccl" if gpus else "gloo"
    _known("--backend", [backend], ("nccl", "gloo"))
    count = ranks or (gpus if backend == "nccl" else 2)
    if backend == "nccl" and not 2 <= count <= gpus:
        raise UserError(f"--ranks {count}: NCCL needs 2 to {gpus} of this host's {gpus} GPUs; or pass --backend gloo")
    return backend, count


def _known(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    from k25serve.server.errors import UserError

    names = list(known)
    for one in given:
        if one not in names:
            raise UserError(f"{option} {one}: none of {', '.join(names)}")


def _finish(recorder: "Recorder", runs: "tuple[Run, ...]", results: Path | None) -> None:
    from k25serve.bench.comm.host import read_host
    from k25serve.bench.comm.report import CommReport
    from k25serve.bench.comm.table import show
    from k25serve.bench.provenance import write

    report = CommReport(host=read_host(), runs=runs)
    show(report, Console())
    if results is not None:
        typer.echo(f"result: {write(recorder.finish(report.model_dump(mode='json')), results)}", err=True)


def _say(line: str) -> None:
    typer.echo(line, err=True)
