"""What a gateway is told once, at start."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
)

ModelName = Annotated[str, Field(min_length=1)]


class ProbeSettings(BaseModel):
    """How the gateway finds out by itself whether the engine can answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_s: PositiveFloat = 1.0
    """Between two attempts at the one-token generation, until one succeeds."""
    generation_timeout_s: PositiveFloat = 60.0
    health_path: str = "/ready"
    """Polled once the engine is ready. Where it is 404 (SGLang before 0.5.21) `/v1/models` is polled."""
    health_interval_s: PositiveFloat = 2.0
    health_timeout_s: PositiveFloat = 5.0
    failures: PositiveInt = 2
    """Health failures in a row before the gateway says that it isn't ready."""


class GatewaySettings(BaseModel):
    """The gateway's whole configuration. No limit on time touches a healthy stream.

    `model_aliases` are further names for the one model. They go to the engine as they are: SGLang answers to any
    name and echoes it, but reads what follows a `:` as an adapter's name, so an alias can't hold one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstream: str
    """The engine's root URL, such as http://127.0.0.1:30000."""
    served_model_name: ModelName
    model_aliases: tuple[ModelName, ...] = ()
    context_length: PositiveInt | None = None
    connect_timeout_s: PositiveFloat = 5.0
    """Until the engine's socket accepts."""
    first_token_timeout_s: PositiveFloat = 600.0
    """Streams: from the request until the first token. Queue and prefill pass in silence."""
    idle_timeout_s: PositiveFloat = 600.0
    """Streams: between two reads. Long, since `stream_reasoning: false` holds a whole thought back."""
    answer_timeout_s: PositiveFloat = 3600.0
    """Without streaming: from the request until the whole answer is here."""
    probe: ProbeSettings = ProbeSettings()
    retry_after_s: NonNegativeInt = 5
    """Sent as `Retry-After` with every 503."""
    max_body_bytes: PositiveInt = 64 * 1024 * 1024
    """Holds a 32 MiB image as a base64 data URI and the rest of the conversation."""
    upstream_api_key: SecretStr | None = None
    """SGLang's `--api-key`. A client's own key never reaches the engine."""

    @field_validator("upstream")
    @classmethod
    def _is_server_root(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"upstream is {url!r}: give a URL like http://127.0.0.1:30000")
        if parts.path.rstrip("/") or parts.query or parts.fragment:
            raise ValueError(f"upstream is {url!r}: give the server's root, without {parts.path or parts.query!r}")
        return url.rstrip("/")

    @field_validator("model_aliases")
    @classmethod
    def _no_adapter_syntax(cls, aliases: tuple[str, ...]) -> tuple[str, ...]:
        for alias in aliases:
            if ":" in alias:
                raise ValueError(
                    f"model_aliases has {alias!r}: choose a name without ':', SGLang reads it as an adapter"
                )
        return aliases

    @property
    def model_names(self) -> tuple[str, ...]:
        """Every name a request may use, the served one first."""
        return (self.served_model_name, *self.model_aliases)
