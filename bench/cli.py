"""`k25serve bench ...`: argv -> call. Each tool's commands are in its own folder; heavy imports wait inside them."""

import typer

from k25serve.bench.ab.commands import ab_command
from k25serve.bench.comm.commands import app as comm_app
from k25serve.bench.expert_budget.commands import expert_budget_command
from k25serve.bench.load.commands import load_command
from k25serve.bench.plan.commands import app as plan_app
from k25serve.bench.report.commands import app as report_app
from k25serve.bench.trace.commands import app as trace_app

app = typer.Typer(
    no_args_is_help=True,
    help="Explain a decode step, measure the links, predict whether speculation pays, load an engine, compare two, "
    "report.",
)
app.add_typer(trace_app, name="trace")
app.add_typer(comm_app, name="comm")
app.add_typer(plan_app, name="plan")
app.command("load")(load_command)
app.command("ab")(ab_command)
app.add_typer(report_app, name="report")
app.command("expert-budget")(expert_budget_command)
