"""The one console script, `k25serve`: argv -> profile -> call. Heavy imports wait inside the commands."""

import asyncio
import contextlib
import errno
import shlex
import sys
from collections.abc import Coroutine
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from k25serve.server import usage
from k25serve.server.config import Profile, load_profile, profile_names
from k25serve.server.errors import ConfigError, UserError
from k25serve.server.host import boot_engine, start_record
from k25serve.server.lazy import lazily
from k25serve.server.notify import status

ELSEWHERE = {
    "drafter": "k25serve.drafters.cli:app",
    "bench": "k25serve.bench.cli:app",
    "ab": "k25serve.server.ab:app",
    "patches": "k25serve.patches.commands:app",
    "deploy": "k25serve.deploy.commands:app",
    "doctor": "k25serve.deploy.doctor.commands:app",
    "prove": "k25serve.bench.prove.commands:prove_command",
}
app = typer.Typer(
    cls=lazily(ELSEWHERE),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Serve Kimi-K2.5 with SGLang and EAGLE-3 behind a thin OpenAI-compatible gateway. "
    "`k25serve demo` needs nothing: it serves a packaged tiny model, on the CPU where there is no GPU.",
)
console = Console(stderr=True, soft_wrap=True)

ProfileName = Annotated[
    str,
    typer.Option(
        "--profile",
        "-p",
        metavar="NAME|FILE",
        help=f"A packaged profile or a YAML file. Packaged: {', '.join(profile_names())}.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the profile, e.g. engine.port=30001. May be repeated."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the engine's environment and command, start nothing.")]


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    for package in ("k25serve", "sglang", "torch"):
        try:
            typer.echo(f"{package} {version(package)}")
        except PackageNotFoundError:
            typer.echo(f"{package} not installed")
    raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Versions of k25serve, SGLang, torch."),
    ] = False,
) -> None:
    # Only they use it, and it costs as much to load as a whole gateway.
    if context.invoked_subcommand in ("drafter", "bench", "prove"):
        from k25serve.drafters.gate.host import Host

        context.obj = Host(boot_engine, start_record)


@app.command()
def serve(profile: ProfileName, overrides: Overrides = None, dry_run: DryRun = False) -> None:
    """Start the engine of a profile and the gateway before it; stop both on Ctrl-C or SIGTERM."""
    from k25serve.server.serve import gateway_settings
    from k25serve.server.serve import serve as run

    if dry_run:
        planned = load_profile(profile, overrides or (), need_models=False)
        gateway_settings(planned)
        return _print_plan(planned)

    _run(run(load_profile(profile, overrides or ()), console))


@app.command()
def engine(profile: ProfileName, overrides: Overrides = None, dry_run: DryRun = False) -> None:
    """Start the engine of a profile alone, on loopback."""
    if dry_run:
        return _print_plan(load_profile(profile, overrides or (), need_models=False))
    from k25serve.server.serve import serve_engine

    _run(serve_engine(load_profile(profile, overrides or ()), console))


@app.command()
def gateway(profile: ProfileName, overrides: Overrides = None) -> None:
    """Start the gateway of a profile alone, before an engine that runs already."""
    from k25serve.server.serve import serve_gateway

    _run(serve_gateway(load_profile(profile, overrides or (), need_models=False), console))


@app.command()
def demo(
    question: Annotated[str | None, typer.Option(help="What to ask.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop after the answer.")] = False,
    overrides: Overrides = None,
) -> None:
    """Serve the packaged tiny model, ask it one question through the gateway, stay up."""
    from k25serve.server.demo import QUESTION, choose_profile
    from k25serve.server.demo import demo as run

    if question is not None and not question.strip():
        raise ConfigError("--question is empty: ask something, or leave it out")
    asked = QUESTION if question is None else question
    _run(run(load_profile(choose_profile(), overrides or ()), console, asked, once=once))


@app.command()
def key(
    name: Annotated[str, typer.Argument(help="Whose key it is: letters, digits, _ . @ -")],
    staff: Annotated[bool, typer.Option("--staff", help="May choose the arm by header.")] = False,
) -> None:
    """Make an API key and its line for the file that `gateway.keys_file` names."""
    from k25serve.server.gateway.auth.new_key import new_key

    secret, line = new_key(name, staff=staff)
    typer.echo(f"key, shown this once: {secret}")
    typer.echo(f"line for the keys file: {line}")


def _print_plan(profile: Profile) -> None:
    from k25serve.server.engine.argv import engine_command, engine_env

    for name, value in engine_env(profile).items():
        typer.echo(f"{name}={shlex.quote(value)} \\")
    typer.echo(" ".join(_quoted(item) for item in engine_command(profile)))


def _quoted(item: str) -> str:
    # A variable that is not set here stays a variable, so that the printed command works where it is.
    return f'"{item}"' if item.startswith("$") else shlex.quote(item)


def _run(work: Coroutine[Any, Any, None]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def main() -> None:
    """Entry point. A mistake that the user can mend is one line on stderr, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        if line := usage.told(error):
            _end(line, error.exit_code)
        sys.exit(error.exit_code)
    except UserError as error:
        _end(str(error), error.exit_code)
    except OSError as error:
        # Reading and writing what the user named; a file of our own that cannot be opened is told the same way.
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        what = f"{error.filename}: " if error.filename is not None else ""
        _end(f"{what}{error.strerror}; correct the path, its rights or the disk's space", UserError.exit_code)
    sys.exit(code)


def _end(message: str, exit_code: int) -> NoReturn:
    with contextlib.suppress(ConfigError):  # the message may be that there is nobody to tell
        status(message)
    console.print(f"k25serve: error: {message}", markup=False, highlight=False, emoji=False, style="red")
    sys.exit(exit_code)
