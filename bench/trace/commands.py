"""`bench trace`: read the profiles of a deployment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from k25serve.bench.default_group import DefaultGroup

if TYPE_CHECKING:
    from k25serve.bench.trace.report import TraceReport

app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="What a decode step spends its time on, from torch.profiler traces of all ranks (json, gz; SGLang's and "
    "vLLM's file names). `bench trace DIR` is `bench trace show DIR`.",
)

Paths = Annotated[list[Path], typer.Argument(metavar="DIR|FILES", help="A profile's folder, or its files, one a rank.")]
Results = Annotated[
    Path | None, typer.Option("--results", metavar="DIR", help="Write a result file, under DIR/trace/.")
]
Page = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page: bars by step, a timeline.")]
DecodeSpan = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Name of the ranges that mark a decode step, for an engine not known here."),
]
Partial = Annotated[bool, typer.Option("--partial", help="Look at the ranks that are there when some are missing.")]
MB_AT_MOST = 1_000_000
RankCount = Annotated[int, typer.Option(min=1, max=1024)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of tables.")]


@app.command()
def show(
    paths: Paths,
    results: Results = None,
    html: Page = None,
    decode_span: DecodeSpan = None,
    partial: Partial = False,
    as_json: AsJson = False,
) -> None:
    """Kernel time by class for each step, the all-reduces, and what the ranks wait for each other.

    Shares are told by name: of summed kernel time (profilers' tables), of the union, and exposed (nothing computed
    meanwhile). Missing or double ranks, and cut files, are errors. Files are read as streams, one rank after the other:
    memory is about 150 bytes for each device event of a rank, whatever the size of the files.
    """
    from k25serve.bench.provenance import Recorder, write
    from k25serve.bench.trace import page, table
    from k25serve.server.outputs import check_file, check_folder

    check_file("--html", html)
    check_folder("--results", results)
    recorder = Recorder("trace")
    report = _read(paths, decode_span, partial)
    if as_json:
        typer.echo(report.model_dump_json())
    else:
        table.show(report, Console())
    if html is not None:
        html.write_text(page.render(report), encoding="utf-8")
    if results is not None:
        from k25serve.bench.trace.ranks import trace_files

        result = recorder.finish(report.model_dump(mode="json"), trace_files(paths))
        typer.echo(f"result: {write(result, results)}", err=True)


@app.command()
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A profile's folder, or a result file of `bench trace`.")],
    b: Annotated[Path, typer.Argument(metavar="B")],
    decode_span: DecodeSpan = None,
    partial: Partial = False,
) -> None:
    """Two deployments side by side: milliseconds of an average decode step by class and by all-reduce."""
    from k25serve.bench.trace import diff as diffs

    reports = [diffs.load(path) or _read([path], decode_span, partial) for path in (a, b)]
    diffs.show(reports[0], reports[1], Console())


@app.command()
def synth(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; must exist.")],
    ranks: RankCount = 8,
    size_mb: Annotated[
        int, typer.Option("--size-mb", min=1, max=MB_AT_MOST, help="Of each file, in 10^6 bytes.")
    ] = 1000,
) -> None:
    """Write large traces with known content, to measure the reader with."""
    from k25serve.bench.trace.synthetic import write_large
    from k25serve.server.errors import UserError
    from k25serve.server.outputs import check_folder, check_space

    if not folder.is_dir():
        raise UserError(f"DIR {folder}: no such folder; make it first")
    check_folder("DIR", folder)
    check_space("DIR", folder, ranks * size_mb * 1_000_000)
    for path in write_large(folder, ranks, size_mb * 1_000_000):
        typer.echo(path)


@app.command()
def hta(
    python: Annotated[
        Path, typer.Option(metavar="FILE", help="Interpreter with HolisticTraceAnalysis and pandas < 3.")
    ],
    scratch: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the traces are made; a new folder, removed after.")
    ],
    results: Annotated[Path, typer.Option(metavar="DIR", help="Write the result file, under DIR/trace-vs-hta/.")],
    ranks: RankCount = 8,
    size_mb: Annotated[
        int, typer.Option("--size-mb", min=1, max=MB_AT_MOST, help="Of each large file, in 10^6 bytes.")
    ] = 100,
    memory_gb: Annotated[
        float,
        typer.Option(min=0.1, max=10_000, help="HTA is ended above this, or when the machine runs out of memory."),
    ] = 20.0,
    reader_mb: Annotated[
        int, typer.Option("--reader-mb", min=0, max=MB_AT_MOST, help="Also read files of this size, without HTA.")
    ] = 0,
) -> None:
    """Side by side with HolisticTraceAnalysis: speed, memory, answers. It is run in its own interpreter."""
    import shutil

    from k25serve.bench.provenance import Recorder, write
    from k25serve.bench.trace.hta import check_interpreter, compare, limits, read_alone
    from k25serve.bench.trace.synthetic import write_large
    from k25serve.server.errors import UserError
    from k25serve.server.outputs import check_folder, check_space

    check_folder("--results", results)
    check_folder("--scratch", scratch)
    if scratch.exists():
        raise UserError(f"--scratch {scratch}: is there already, and would be removed at the end; give a new folder")
    check_interpreter(python)
    recorder = Recorder("trace-vs-hta")
    (scratch / "large").mkdir(parents=True)
    try:
        check_space("--scratch", scratch, ranks * max(size_mb, reader_mb) * 1_000_000)
        large = write_large(scratch / "large", ranks, size_mb * 1_000_000)
        data = compare(python, scratch, large, memory_gb, lambda line: typer.echo(line, err=True))
        if reader_mb:
            shutil.rmtree(scratch / "large")
            (scratch / "large").mkdir()
            data["reader"] = read_alone(write_large(scratch / "large", ranks, reader_mb * 1_000_000))
    finally:
        shutil.rmtree(scratch)
    typer.echo(f"result: {write(recorder.finish(data, notes=limits(data['large'])), results)}")


def _read(paths: list[Path], decode_span: str | None, partial: bool) -> "TraceReport":
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from k25serve.bench.trace.analyse import analyse
    from k25serve.bench.trace.ranks import trace_files

    whole = sum(path.stat().st_size for path in trace_files(paths))
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=whole)
        return analyse(
            paths,
            decode_span=decode_span,
            partial=partial,
            progress=lambda path, count: bar.update(task, advance=count, description=path.name),
        )
