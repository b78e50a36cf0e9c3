"""What an arm is told once, at start."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, SecretStr, field_validator

Dialect = Literal["sglang", "vllm", "openai"]
ArmName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class ArmOptions(BaseModel):
    """One upstream but for its address. `name` is a metric label and the value of the answer's `x-k25serve-arm`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ArmName
    dialect: Dialect = "sglang"
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Share of the conversations, relative to the other arms'; 0: only by the staff's header."""
    model: str | None = None
    """The name that this arm serves the model under; None: it takes every name that clients may use."""
    api_key: SecretStr | None = None
    """SGLang's or vLLM's `--api-key`. A client's own key never reaches an engine."""
    lossy: tuple[ArmName, ...] = ()
    """What changes the target's output at this arm, told in every answer's `x-k25serve-lossy`."""
    max_concurrency: PositiveInt = 2048
    """Requests at the engine at once; more wait in the queue."""
    max_queue: NonNegativeInt = 2048
    """Requests that may wait; more are answered with 503."""


class ArmSettings(ArmOptions):
    """One upstream."""

    url: str
    """The engine's root URL, such as http://127.0.0.1:30000."""

    @field_validator("url")
    @classmethod
    def _is_server_root(cls, url: str) -> str:
        return server_root("url", url)


def server_root(field: str, url: str) -> str:
    """`url` without its last slash.

    Raises:
        ValueError: it isn't the root of an HTTP server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{field} is {url!r}: give a URL like http://127.0.0.1:30000")
    if parts.path.rstrip("/") or parts.query or parts.fragment:
        raise ValueError(f"{field} is {url!r}: give the server's root, without {parts.path or parts.query!r}")
    return url.rstrip("/")
