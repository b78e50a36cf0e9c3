"""`k25serve drafter train capture`."""

from pathlib import Path
from typing import Annotated

import typer

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.options import SPLITS, CaptureOptions
from k25serve.drafters.training.one_line import one_line_errors

GB = 1e9


def capture(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="RUN/data, as `drafter train data` wrote it.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="RUN/hidden, where the states go.")],
    url: Annotated[str, typer.Option(metavar="URL", help="The engine's own address, not the gateway's.")],
    target: Annotated[Path, typer.Option(metavar="FOLDER", help="The served model's folder.")],
    staging: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The row's directory as it is seen here, where that is another path. Best in memory: /dev/shm.",
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(metavar="N,N,N", help="Refuse an engine that captures other layers (counted from 0)."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Prompts at a time. With 1 no batches form: the same bits on each run of a CPU.")
    ] = 1,
    rows_per_shard: Annotated[int, typer.Option(min=1, help="Samples that are sealed together.")] = 256,
    split: Annotated[str | None, typer.Option(help=f"One of {' and '.join(SPLITS)}; by default both.")] = None,
    shards: Annotated[
        str | None,
        typer.Option(metavar="N|N-N", help="Only these shards of each split, from 0; the last one is included."),
    ] = None,
    disk_budget: Annotated[
        float | None, typer.Option(metavar="GB", min=0, help="The most that the states may take; refused beforehand.")
    ] = None,
    verify: Annotated[str, typer.Option(metavar="hash|size", help="How sealed shards are verified.")] = "hash",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For one prompt, and for its file.")] = 600,
    check: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Capture nothing; compare N captured samples with a plain forward, and with the engine's own "
            "log-probabilities.",
        ),
    ] = 0,
) -> None:
    """Capture the target's hidden states for every row of the data, from an engine with the row `capture_states`.

    The engine: `k25serve serve -p PROFILE --set patches.capture_states.directory=/dev/shm/states --set
    'patches.capture_states.layers="1,29,57"' --set speculation.algorithm=none`, with engine.extra_args
    --disable-radix-cache --chunked-prefill-size -1 (and on a GPU --disable-prefill-cuda-graph).
    A stopped capture goes on at the first file that is missing or wrong. Exit codes: 0 done, or the check passed; 1 the
    check failed; 2 a mistake in the command, the data or the engine.
    """
    from k25serve.drafters.training.capture import run
    from k25serve.drafters.training.capture.shards import plan_shards
    from k25serve.drafters.training.progress import Shown

    with one_line_errors():
        options = _options(layers, concurrency, rows_per_shard, split, disk_budget, verify, timeout)
        if check:
            from k25serve.drafters.training.capture import tables
            from k25serve.drafters.training.capture.check import check as compare

            report = compare(options, data, out, url, target, check)
            tables.print_check(report)
            raise typer.Exit(1 if report.faults else 0)
        wanted = [shard for shard in plan_shards(data, options) if shards is None or shard.index in _range(shards)]
        if not wanted:
            raise TrainingError(f"--shards {shards}: the data has no such shard; leave it out for all")
        with Shown() as progress:
            done = run.capture(options, data, out, url, target, staging, progress, wanted)
    typer.echo(
        f"{done.shards} shards sealed: {done.captured} rows captured, {done.kept} were there, {done.mended} of them "
        f"wrong and captured again; {done.tokens:,} tokens in {done.seconds:.1f} s, {done.tokens_per_second:,.0f} tok/s"
    )


def _options(
    layers: str | None,
    concurrency: int,
    rows_per_shard: int,
    split: str | None,
    disk_budget: float | None,
    verify: str,
    timeout: float,
) -> CaptureOptions:
    from pydantic import ValidationError

    try:
        numbers = None if layers is None else tuple(int(number) for number in layers.split(","))
    except ValueError:
        raise TrainingError(f"--layers {layers}: give numbers, counted from 0, as 1,29,57") from None
    try:
        return CaptureOptions.model_validate(
            {
                "layers": numbers,
                "concurrency": concurrency,
                "rows_per_shard": rows_per_shard,
                "splits": SPLITS if split is None else (split,),
                "disk_budget_bytes": None if disk_budget is None else round(disk_budget * GB),
                "verify": verify,
                "timeout_s": timeout,
            }
        )
    except ValidationError as error:
        fault = error.errors()[0]
        name = {"splits": "--split", "verify": "--verify"}.get(str(fault["loc"][0]), str(fault["loc"][0]))
        raise TrainingError(f"{name} {fault['input']}: {fault['msg'].lower()}; correct it") from None


def _range(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        return range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise TrainingError(f"--shards {text}: give a number, or two as 0-3") from None
