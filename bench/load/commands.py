"""`bench load`: argv -> settings -> run -> table, result file, exit code."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from k25serve.bench.load.plan import CLASSES, LEVELS

Url = Annotated[str, typer.Option(metavar="URL", help="The server: its root, its /v1 or its chat URL.")]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="The result file goes to DIR/load/.")]


def load_command(
    url: Url,
    levels: Annotated[
        list[int] | None,
        typer.Option("--level", metavar="N", help=f"Concurrent requests; may be repeated. Default: {LEVELS}."),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help=f"Prompt class; may be repeated. Default: {', '.join(CLASSES)}."),
    ] = None,
    contexts: Annotated[
        list[int] | None,
        typer.Option("--context", metavar="TOKENS", help="Synthetic text before each prompt; may be repeated."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=2, help="Output tokens of each request, exactly (ignore_eos).")] = 256,
    natural_tokens: Annotated[int, typer.Option(min=2, help="At most so many where the model ends the answer.")] = 1024,
    requests: Annotated[int, typer.Option(min=1, help="At least so many in a cell; 2 for each stream anyway.")] = 12,
    single_stream: Annotated[bool, typer.Option(help="Also each class by itself at concurrency 1.")] = True,
    natural: Annotated[bool, typer.Option(help="Also each class to its natural end, for acceptance.")] = True,
    model: Annotated[str | None, typer.Option(help="Default: the first that the server lists.")] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2)] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of prompts and of sampling.")] = 0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for a whole answer.")] = 600.0,
    api_key_env: Annotated[str | None, typer.Option(metavar="NAME", help="Environment variable with the key.")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0, help="Of the machine; gives a price of tokens.")
    ] = None,
    runner: Annotated[Literal["own", "aiperf"], typer.Option(help="Who sends the load.")] = "own",
    aiperf: Annotated[Path | None, typer.Option(metavar="FILE", help="AIPerf's program; default: on the PATH.")] = None,
    results: Results = Path("bench/results"),
) -> None:
    """Load one OpenAI-compatible server: a sweep over concurrency, single streams, natural ends.

    Every answer is measured from raw timestamps, tokens are the engine's own count, reasoning included. A run whose
    answers are short, empty, failed or otherwise no measurement is INVALID: it says why and ends with exit code 1.
    """
    import uvloop

    from k25serve.bench.load.aiperf import aiperf_load, find_aiperf
    from k25serve.bench.load.campaign import Settings, load
    from k25serve.bench.load.endpoint import resolve
    from k25serve.bench.load.plan import LoadPlan
    from k25serve.bench.load.progress import counting
    from k25serve.bench.load.records_file import write_result
    from k25serve.bench.load.table import WIDTH, show_cells, show_findings
    from k25serve.bench.provenance import Recorder
    from k25serve.server.errors import UserError

    console = Console(stderr=True)
    endpoint = resolve(url)
    if runner == "own" and aiperf is not None:
        raise UserError(f"--aiperf {aiperf}: has no effect with --runner own; remove it")
    program = find_aiperf(aiperf) if runner == "aiperf" else None
    plan = LoadPlan(
        levels=tuple(levels or LEVELS),
        classes=tuple(classes or CLASSES),
        contexts=tuple(contexts or (0,)),
        requests=requests,
        single_stream=single_stream,
        natural=natural,
    )
    settings = Settings(
        endpoint,
        plan,
        model,
        tokens,
        natural_tokens,
        temperature,
        seed,
        timeout_s=timeout,
        key_env=api_key_env,
        price_per_hour=price_per_hour,
        aiperf=None if program is None else lambda name: aiperf_load(program, endpoint, name, timeout),
    )
    recorder = Recorder("load")
    with counting("requests", sum(map(plan.count, plan.cells())), console) as advance:
        data, records = uvloop.run(load(settings, advance))
    path = write_result(recorder, data.model_dump(mode="json"), records, results)
    out = Console()
    out.width = max(out.width, WIDTH)
    show_cells(f"{data.endpoint}  {data.model}", data.cells, out)
    show_findings(data.findings, console)
    typer.echo(f"result: {path}", err=True)
    if not data.valid:
        raise typer.Exit(1)
