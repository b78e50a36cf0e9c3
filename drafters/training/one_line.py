"""What every command of `drafter train` does with a mistake that the user can mend."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from k25serve.drafters.checkpoint.errors import DrafterError

USAGE_CODE = 2


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A DrafterError, or a file that cannot be used, is one line on stderr and exit code 2."""
    try:
        yield
    except DrafterError as error:
        typer.secho(f"k25serve: error: {error}", err=True, fg="red")
        raise typer.Exit(USAGE_CODE) from None
    except OSError as error:
        if error.filename is None:
            raise
        typer.secho(f"k25serve: error: {error.filename}: {error.strerror}; correct the path", err=True, fg="red")
        raise typer.Exit(USAGE_CODE) from None
