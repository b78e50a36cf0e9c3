"""A command group in which one command needs no name: `bench trace DIR` is `bench trace show DIR`."""

from typing import Any

from typer.core import TyperGroup


class DefaultGroup(TyperGroup):
    """The first command added is meant where the first word is no command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command's name in front where there is none. `ctx` is a click context."""
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        default = next(iter(self.commands))
        return super().parse_args(ctx, args if named else [default, *args])
