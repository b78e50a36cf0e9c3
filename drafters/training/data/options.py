"""What `drafter train data` can be told."""

from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from k25serve.drafters.training.settings import Settings


class Format(StrEnum):
    """The form of an input's rows; `auto`: told from the keys of each row."""

    AUTO = "auto"
    OPENAI = "openai"
    SHAREGPT = "sharegpt"
    PERFECTBLEND = "perfectblend"


class Thinking(StrEnum):
    """How assistant turns are rendered.

    as_is  with reasoning where they have it, else as the template does with thinking off
    on     only turns with reasoning are supervised
    off    reasoning is left out everywhere
    """

    AS_IS = "as-is"
    ON = "on"
    OFF = "off"


class Regenerate(Settings):
    """Let the served model answer instead. timeout_s: of one answer."""

    url: str
    model: str | None = None
    temperature: float = Field(default=1.0, ge=0.0)
    max_tokens: int = Field(default=4096, ge=1)
    concurrency: int = Field(default=16, ge=1)
    retries: int = Field(default=5, ge=0)
    timeout_s: float = Field(default=1800.0, gt=0.0)

    @field_validator("url")
    @classmethod
    def _has_scheme(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the scheme is missing; give http://{url}")
        return url.rstrip("/").removesuffix("/v1")


class DataOptions(Settings):
    """inputs: files, or folders of them; packaged: so many of the tiny target's training chats.

    max_length in tokens; held_out: share of the conversations; max_conversations: a random choice, that of `seed`.
    """

    inputs: tuple[Path, ...] = ()
    format: Format = Format.AUTO
    packaged: int = Field(default=0, ge=0)
    seed: int = 0
    max_length: int = Field(default=4096, ge=2)
    max_conversations: int | None = Field(default=None, ge=1)
    held_out: float = Field(default=0.05, ge=0.0, lt=1.0)
    thinking: Thinking = Thinking.AS_IS
    skip_bad: bool = False
    trust_remote_code: bool = False
    workers: int = Field(default=1, ge=1)
    regenerate: Regenerate | None = None

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.inputs and not self.packaged:
            raise ValueError("no source; give inputs, or a number of packaged chats")
        return self

    @property
    def decisive(self) -> dict[str, Any]:
        """The settings that decide what comes out, as JSON; not those that decide how fast."""
        value = self.model_dump(mode="json", exclude={"workers", "inputs"})
        if self.regenerate:
            for name in ("concurrency", "retries", "timeout_s"):
                del value["regenerate"][name]
        return value
