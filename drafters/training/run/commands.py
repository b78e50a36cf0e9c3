"""`k25serve drafter train run`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from k25serve.drafters.training.one_line import one_line_errors

INTERRUPTED = 130


def run_command(
    config: Annotated[
        str,
        typer.Option(
            metavar="packaged:NAME|FILE", help="packaged:tiny, tiny-gpu, tiny-scratch, micro, k25, or a file."
        ),
    ],
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The run's folder; a begun run goes on.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the config, e.g. fit.max_minutes=5. Repeatable."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the config, to be edited; do nothing.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print steps, sizes and times; do nothing.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Everything with ten samples and a few steps, in a folder of its own.")
    ] = False,
    redo: Annotated[
        bool, typer.Option("--redo", help="Do finished steps again whose settings have changed; what is there goes.")
    ] = False,
    until: Annotated[str | None, typer.Option(metavar="STEP", help="Stop after this step, e.g. data.")] = None,
) -> None:
    """Train a drafter: data, vocabulary, capture with the engine up, fit with it down, export, acceptance.

    A run that was stopped or killed goes on with the same command; nothing is done twice. Its engine never outlives it.
    Exit codes: 0 done; 1 the gate refuses; 2 a mistake that can be mended.
    """
    from k25serve.drafters.checkpoint.errors import TrainingError
    from k25serve.drafters.training.run.load import config_text, load_config
    from k25serve.drafters.training.run.smoke import smoke as smaller

    with one_line_errors():
        if show:
            return typer.echo(config_text(config, changes or ()), nl=False)
        if out is None:
            raise TrainingError("--out is missing; name the run's folder")
        asked = load_config(config, changes or ())
        asked = smaller(asked) if smoke else asked
        if plan:
            from k25serve.drafters.training.run.show import print_plan

            return print_plan(asked, out, config)
        from k25serve.drafters.training.run.orchestrate import run

        try:
            done = run(asked, out, _say, redo=redo, until=until)
        except KeyboardInterrupt:
            _say("stopped; the same command goes on")
            raise typer.Exit(INTERRUPTED) from None
    from k25serve.drafters.training.run.show import summary

    _say("\n".join(summary(done, out)))
    if done.facts.get("gate", {}).get("verdict") == "refuse":
        raise typer.Exit(1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
