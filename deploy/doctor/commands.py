"""`k25serve doctor`: argv -> call."""

import io
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from k25serve.bench.default_group import DefaultGroup
from k25serve.deploy.doctor.finding import Finding
from k25serve.server.errors import UserError

app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="What would stop or slow an engine, found before any weight is loaded, and what an engine's log says. "
    "`k25serve doctor -p PROFILE` is `k25serve doctor examine -p PROFILE`.",
)
STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "dim"}


@app.command()
def examine(
    profile: Annotated[
        str, typer.Option("--profile", "-p", metavar="NAME|FILE", help="A packaged profile or a YAML file.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the profile.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at SGLang, patches, models, GPUs, memory, limits, kernel, ports and links for a profile.

    Each finding: verdict, what it was judged by, what to do. Nothing is changed. Exit code 1 where one is `fail`;
    `skip` says what could not be looked at here.
    """
    from k25serve.deploy.doctor.examine import examine as look
    from k25serve.deploy.doctor.machine import Machine
    from k25serve.server.config import load_profile

    loaded = load_profile(profile, overrides or (), need_models=False)
    console = Console(soft_wrap=True, highlight=False)
    findings: list[Finding] = []
    for one in look(loaded, Machine()):
        findings.append(one)
        if not as_json:
            _show(one, console)
    if as_json:
        typer.echo(json.dumps([one.as_json() for one in findings], indent=1))
    if any(one.verdict == "fail" for one in findings):
        raise typer.Exit(1)


@app.command()
def log(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="An engine's log; - reads standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the causes as JSON.")] = False,
) -> None:
    """Name the cause of what an engine's log ends with, and what to do. Exit code 1 where no cause is known."""
    from k25serve.deploy.doctor.log.classify import classify

    piped = str(file) == "-"
    if piped and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    try:
        with nullcontext(sys.stdin) if piped else file.open(encoding="utf-8", errors="replace") as lines:
            causes = classify(lines)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give an engine's log") from None
    if as_json:
        typer.echo(json.dumps([cause.as_json() for cause in causes], indent=1))
    else:
        for cause in causes:
            typer.echo(f"line {cause.line}: {cause.cause}\n  {cause.evidence}\n  do: {cause.advice}")
    if not causes:
        typer.echo(f"{file}: no known cause in it; its last lines are where to look", err=True)
        raise typer.Exit(1)


def _show(one: Finding, console: Console) -> None:
    console.print(f"{one.verdict:4}  {one.check}: {one.evidence}", style=STYLES[one.verdict], markup=False)
    if one.remedy:
        console.print(f"      do: {one.remedy}", markup=False)
