"""`k25serve drafter train ...`: one sub-command a step. Heavy imports wait inside the commands."""

import typer

app = typer.Typer(
    name="train",
    no_args_is_help=True,
    help="Train an EAGLE-3 drafter for the model that an engine serves. Each step can be killed and goes on.",
)
