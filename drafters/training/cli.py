"""`k25serve drafter train ...`: one sub-command a step. Heavy imports wait inside the commands."""

import typer

from k25serve.drafters.training.capture.commands import capture
from k25serve.drafters.training.data.commands import data
from k25serve.drafters.training.estimate.commands import estimate_command
from k25serve.drafters.training.export.commands import export_command
from k25serve.drafters.training.fit.commands import fit_command
from k25serve.drafters.training.run.commands import run_command
from k25serve.drafters.training.vocab.commands import vocab

app = typer.Typer(
    name="train",
    no_args_is_help=True,
    help="Train an EAGLE-3 drafter for the model that an engine serves. Each step can be killed and goes on.",
)
app.command("estimate")(estimate_command)
app.command("capture")(capture)
app.command("data")(data)
app.command("vocab")(vocab)
app.command("fit")(fit_command)
app.command("export")(export_command)
app.command("run")(run_command)
