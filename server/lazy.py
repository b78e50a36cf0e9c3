"""Commands that are imported when they are called: a gateway's start need not wait for what a benchmark loads."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def lazily(named: Mapping[str, str]) -> type[TyperGroup]:
    """A group for typer.Typer(cls=...) that has, after its own commands, those of `named`.

    named: command -> "module:name" of a typer.Typer or of a command's function.
    """

    class Lazy(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for name in named:
                self.add_command(TyperCommand(name))

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in named and type(self.commands[cmd_name]) is TyperCommand:
                self.add_command(_command(cmd_name, named[cmd_name]), cmd_name)
            return super().get_command(ctx, cmd_name)

    return Lazy


def _command(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(found)
    return typer.main.get_command(alone)
