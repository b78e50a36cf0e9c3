"""`k25serve drafter train fit`."""

from pathlib import Path
from typing import Annotated

import typer

from k25serve.drafters.training.one_line import one_line_errors


def fit_command(
    run: Annotated[Path, typer.Option(metavar="FOLDER", help="RUN, with data, vocab and hidden in it.")],
    target: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The target's folder; only embedding, head and final norm are read.")
    ],
    config: Annotated[str, typer.Option(metavar="NAME|FILE", help="k25, tiny, or a YAML file like those.")] = "k25",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the config, e.g. max_minutes=10. Repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the training goes; RUN/fit.")] = None,
) -> None:
    """Train the drafter on the captured states. A stopped training goes on at its last checkpoint.

    Writes final/ in speculators' format, which `drafter train export` makes a folder for SGLang of, and curves.jsonl.
    On several GPUs: `drafter train run` with processes: N, or torchrun --nproc-per-node N -m
    k25serve.drafters.training.run.rank RUN TARGET CONFIG.yaml RUN/fit.
    """
    from k25serve.drafters.training.fit.config_file import load_options
    from k25serve.drafters.training.progress import Shown

    with one_line_errors():
        options = load_options(config, changes or ())
        from k25serve.drafters.training.fit.run import fit

        with Shown() as progress:
            done = fit(options, run, target, out or run / "fit", progress)
    held_out = done.curves[-1]["held_out"]
    typer.echo(
        f"{done.steps} steps, {done.tokens:,} tokens in {done.seconds:.0f} s; accept_length on held_out "
        f"{held_out['accept_length']:.3f}; written: {done.final}"
    )
