"""What the conversation log is told once, at start."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt


class ConversationLogSettings(BaseModel):
    """Where good answers are recorded, how many, and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path
    """Made if it isn't there, for the gateway's account alone."""
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the requests that are recorded, a random choice."""
    max_bytes: PositiveInt = 256 * 1024 * 1024
    """Of one file, before the next is begun."""
    keep: PositiveInt = 8
    """Files in the directory, those that are being written included; the oldest go. More than there are workers."""
