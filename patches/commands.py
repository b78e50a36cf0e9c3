"""`k25serve patches ...`: argv -> call. Heavy imports wait inside the commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from k25serve.patches.manifest import ROWS
from k25serve.patches.manifest.judge import is_left_out, misfits
from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.trees import Installed, TreeError, Wheel
from k25serve.server.errors import UserError

app = typer.Typer(
    no_args_is_help=True,
    help="What k25serve changes in SGLang: the patches, whether they fit a version, whether the kernels fit a GPU.",
)

WheelFile = Annotated[
    Path | None,
    typer.Option(
        "--sglang-wheel",
        metavar="FILE",
        help="Read this wheel, without installing it (pip download --no-deps sglang==VERSION), "
        "instead of the installed SGLang.",
    ),
]


@app.command("list")
def list_rows(sglang_wheel: WheelFile = None) -> None:
    """Show every patch: whether it fits the SGLang at hand, its switch, whether it is lossy, what it is for.

    A profile switches a patch with `patches: {NAME: true|false}`, or sets its options: `patches: {NAME: {OPTION: 1}}`.
    """
    from k25serve.patches.show import rows_table

    try:
        modules = _modules(sglang_wheel)
    except UserError:
        if sglang_wheel is not None:
            raise
        modules = None
    with _damage_told():
        table = rows_table(ROWS, modules)
    Console(width=None if Console().is_terminal else 160).print(table)


@app.command()
def verify(sglang_wheel: WheelFile = None) -> None:
    """Compare what each patch was written against with an SGLang's source; how an upgrade is judged.

    Exit code 1 if a patch does not fit. One that is for other versions only is named, and is no failure.
    """
    modules = _modules(sglang_wheel)
    typer.echo(f"SGLang {modules.version}")
    faults = 0
    for row in ROWS:
        if is_left_out(row, ROWS, modules.version):
            typer.echo(f"  {row.name}: left out, for {' and '.join(row.versions)} only")
            continue
        with _damage_told():
            found = misfits(row, modules)
        faults += len(found)
        typer.echo(f"  {row.name}: {'does not fit' if found else 'fits'}")
        for misfit in found:
            typer.echo(f"    {misfit.what}")
        if found:
            typer.echo(f"    remedy: {found[0].remedy}")
    raise typer.Exit(1 if faults else 0)


@app.command(
    "compile", add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def compile_kernels(context: typer.Context) -> None:
    """Compile the kernels for a GPU that need not be there and check its limits: --arch sm_120|sm_90; --help."""
    try:
        from k25serve.patches.compile.__main__ import main
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed: this needs the engine's environment, with triton") from None
    raise typer.Exit(main(context.args))


def _modules(wheel: Path | None) -> Modules:
    with _damage_told():
        return Modules(Installed.find() if wheel is None else Wheel.open(wheel))


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except TreeError as error:
        raise UserError(str(error)) from None
