"""What `drafter train export` is asked for."""

from typing import Annotated

from pydantic import Field

from k25serve.drafters.training.settings import Settings


class ExportOptions(Settings):
    """context_length: of the served model; by default all that the target can. The drafter must reach it."""

    context_length: Annotated[int, Field(ge=1)] | None = None
