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

RANKS_AT_MOST = 64
CORES_FACTOR, GLOO_RANKS = 4, 8  # gloo ranks a core, and how many there may be anyway
SIZE_AT_MOST = 1 << 30
DAY_S = 86_400

Ranks = Annotated[int | None, typer.Option(min=2, max=RANKS_AT_MOST, help="Default: one a GPU, or 2 on the CPU.")]
Backend = Annotated[
    str, typer.Option(metavar="auto|nccl|gloo", help="auto: nccl where there are two GPUs or more, else gloo.")
]
Limit = Annotated[float, typer.Option(min=1, max=DAY_S, help="Seconds for each run; then its ranks are killed.")]
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
    sizes: Annotated[
        list[int] | None,
        typer.Option(
            "--size",
            metavar="BYTES",
            min=1,
            max=SIZE_AT_MOST,
            help="May be repeated. Default: the hidden states of 1 to 512 tokens of Kimi-K2.5.",
        ),
    ] = None,
    graphs: Annotated[bool, typer.Option(help="Also from CUDA graphs, as engines decode (NCCL only).")] = True,
) -> None:
    """All-reduce and all-to-all over message size, with a start-up + per-byte fit and its residual."""
    from typing import get_args

    from k25serve.bench.comm import sweep
    from k25serve.bench.comm.report import Paths, Plan
    from k25serve.bench.comm.variants import DEFAULT, VARIANTS
    from k25serve.bench.provenance import Recorder
    from k25serve.server.outputs import check_folder

    _known("--variant", variants or [], VARIANTS)
    _known("--path", paths or [], get_args(Paths))
    check_folder("--results", results)
    recorder = Recorder("comm")
    backend, count = _where(backend, ranks)
    _runnable(backend, paths or [], [one for one in variants or [] if one != DEFAULT])
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
    from k25serve.server.outputs import check_folder

    check_folder("--results", results)
    recorder = Recorder("comm")
    backend, count = _where(backend, ranks)
    runs = check(count, backend, limit, say=_say)
    _finish(recorder, runs, results)
    if line := advice(runs):
        typer.echo(line, err=True)
        raise typer.Exit(1)


def _where(backend: str, ranks: int | None) -> tuple[str, int]:
    """The back end and the number of ranks. Raises UserError where this host can't run them."""
    import os

    from k25serve.bench.comm.host import gpu_count
    from k25serve.server.errors import UserError

    _known("--backend", [backend], ("auto", "nccl", "gloo"))
    gpus = gpu_count()
    if backend == "auto":
        backend = "nccl" if gpus > 1 else "gloo"
    if backend == "nccl":
        if gpus < 2:
            there = "no NVIDIA GPU (nvidia-smi lists none)" if gpus == 0 else "one GPU"
            raise UserError(f"--backend nccl: this host has {there}, and a collective takes two; pass --backend gloo")
        if ranks is not None and ranks > gpus:
            raise UserError(f"--ranks {ranks}: NCCL takes a GPU for each, this host has {gpus}; pass 2 to {gpus}")
        return backend, ranks or gpus
    cores = len(os.sched_getaffinity(0))
    most = max(GLOO_RANKS, CORES_FACTOR * cores)
    if ranks is not None and ranks > most:
        raise UserError(f"--ranks {ranks}: gloo ranks share this host's {cores} cores; pass 2 to {most}")
    return backend, ranks or 2


def _runnable(backend: str, paths: Iterable[str], variants: Iterable[str]) -> None:
    """Raise UserError for what a back end has not: SGLang's communicators and NCCL's variants on the CPU."""
    from importlib.util import find_spec

    from k25serve.server.errors import UserError

    for path in paths:
        if path != "torch" and backend != "nccl":
            raise UserError(
                f"--path {path}: SGLang's all-reduce runs on two or more GPUs, not over {backend}; leave it out"
            )
        if path != "torch" and find_spec("sglang") is None:
            raise UserError(f"--path {path}: SGLang is not installed in this environment; install it, or leave it out")
    for variant in variants:
        if backend != "nccl":
            raise UserError(f"--variant {variant}: a setting of NCCL, which {backend} does not read; leave it out")


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
