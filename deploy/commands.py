"""`k25serve deploy ...`: argv -> call. Heavy imports wait inside the commands."""

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from k25serve.deploy.observe import app as observe_app

app = typer.Typer(
    no_args_is_help=True, help="Run as services of systemd, watch them, and try a profile beside what serves now."
)
app.add_typer(observe_app)

ProfileName = Annotated[
    str, typer.Option("--profile", "-p", metavar="NAME|FILE", help="A packaged profile or a YAML file.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the profile. May be repeated."),
]
User = Annotated[str, typer.Option(metavar="NAME", help="The account that the services run as.")]
Executable = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The k25serve that the services run; by default the one beside this Python."),
]


@app.command()
def systemd(
    profile: ProfileName,
    overrides: Overrides = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the files there, for example /etc/systemd/system; else print them."),
    ] = None,
    user: User = "k25serve",
    executable: Executable = None,
    engine_only: Annotated[
        bool, typer.Option("--engine-only", help="Leave the gateway's unit out: another profile's is in place.")
    ] = False,
) -> None:
    """Make the units of a profile: k25serve-engine@NAME.service and k25serve-gateway.service."""
    from k25serve.deploy.systemd.render import (
        engine_files,
        engine_unit,
        folders_to_make,
        gateway_files,
        k25serve_command,
    )
    from k25serve.deploy.write import write_files
    from k25serve.server.config import load_profile
    from k25serve.server.serve import gateway_settings

    loaded = load_profile(profile, overrides or ())
    gateway_settings(loaded)
    program = _executable(executable)
    files = engine_files(
        loaded, k25serve_command(program, "engine", loaded, profile, overrides or ()), user, os.environ
    )
    if not engine_only:
        files |= gateway_files(loaded, k25serve_command(program, "gateway", loaded, profile, overrides or ()), user)
    if output is None:
        for name, text in files.items():
            typer.echo(f"### {name}\n{text}")
        return
    write_files(output, files)
    for name in files:
        typer.echo(output / name)
    typer.echo(f"\nnext: systemd-sysusers {output / 'k25serve.sysusers.conf'} && systemctl daemon-reload &&")
    for folder in () if engine_only else folders_to_make(loaded):
        typer.echo(f"      install -d -o {user} -g {user} -m 700 {shlex.quote(str(folder))} &&")
    gateway = "" if engine_only else " k25serve-gateway.service"
    typer.echo(f"      systemctl enable --now {engine_unit(loaded)}{gateway}")


@app.command(name="try")
def try_profile(
    profile: ProfileName,
    overrides: Overrides = None,
    production_unit: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The unit that serves now, never edited; by default found by what it holds."),
    ] = None,
    user: User = "k25serve",
    executable: Executable = None,
    units: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the trial's unit files go; by default a reboot removes them.")
    ] = Path("/run/systemd/system"),
) -> None:
    """Stop what serves now, start a profile in its place; go back by `rollback`, or by itself where it fails.

    It fails where the engine is not ready in time, its acceptance gate refuses it (a gate that warns refuses here), it
    fails on a shared prefix or a long prompt, the gateway no longer serves what it did, or systemd gives up on it.
    systemd runs the trial: this command may be left.
    """
    from k25serve.deploy.trial.begin import begin
    from k25serve.deploy.trial.follow import follow
    from k25serve.server.config import load_profile

    loaded = load_profile(profile, overrides or ())
    program = _executable(executable)
    trial = asyncio.run(begin(loaded, profile, overrides or (), production_unit, program, user, units))
    console = Console(soft_wrap=True)
    console.print(f"trial: {trial.profile} takes the place of {trial.production_unit}", highlight=False)
    console.print(f"going back will take {trial.back}", highlight=False)
    follow(trial, console)


@app.command()
def rollback() -> None:
    """End the trial and start the unit that served before."""
    from k25serve.deploy.trial.follow import roll_back

    roll_back(Console(soft_wrap=True))


@app.command(name="trial-start", hidden=True)
def trial_start() -> None:
    """What k25serve-trial.service runs."""
    from k25serve.deploy.trial.steps import start

    asyncio.run(start())


@app.command(name="trial-end", hidden=True)
def trial_end() -> None:
    """What k25serve-trial.service runs when it ends, whatever ended it."""
    from k25serve.deploy.trial.steps import end

    end()


def _executable(given: Path | None) -> Path:
    from k25serve.server.errors import ConfigError

    program = (given or Path(sys.executable).with_name("k25serve")).absolute()
    if not os.access(program, os.X_OK) or program.is_dir():
        raise ConfigError(f"--executable {program}: is no program; give the k25serve of the installation to be run")
    return program
