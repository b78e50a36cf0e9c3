"""What a gateway is told once, at start."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)

from k25serve.server.gateway.arms.settings import ArmSettings, server_root
from k25serve.server.gateway.conversations.settings import ConversationLogSettings
from k25serve.server.gateway.experiment.settings import ExperimentSettings

ModelName = Annotated[str, Field(min_length=1)]
Modality = Literal["text", "image"]


class ProbeSettings(BaseModel):
    """How the gateway finds out by itself whether the engine can answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_s: PositiveFloat = 1.0
    """Between two attempts at the one-token generation, until one succeeds."""
    generation_timeout_s: PositiveFloat = 60.0
    health_path: str = "/ready"
    """Polled once the engine is ready. Where it is 404 (SGLang before 0.5.21, vLLM) `/v1/models` is polled."""
    health_interval_s: PositiveFloat = 2.0
    health_timeout_s: PositiveFloat = 5.0
    failures: PositiveInt = 2
    """Health failures in a row before the gateway says that it isn't ready."""


class BreakerSettings(BaseModel):
    """When the gateway stops asking an arm that doesn't answer at all. Error statuses don't count: they are answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failures: PositiveInt = 5
    """Calls in a row without an answer before the breaker opens."""
    open_s: PositiveFloat = 5.0
    """Until one call may try again."""


class SamplingDefaults(BaseModel):
    """Sampling fields for requests that leave them out; None: the engine's own default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: PositiveFloat | None = None

    @cached_property
    def given(self) -> dict[str, Any]:
        """Those that have a value."""
        return self.model_dump(exclude_none=True)


class ThinkingSettings(BaseModel):
    """Thinking on or off, and how each mode samples."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: bool | None = None
    """For requests that don't say; None leaves it to the model's template, where K2.5 thinks."""
    sampling_on: SamplingDefaults = SamplingDefaults()
    sampling_off: SamplingDefaults = SamplingDefaults()

    @cached_property
    def has_defaults(self) -> bool:
        """Whether a request that leaves everything out is given something."""
        return self.default is not None or bool(self.sampling_on.given) or bool(self.sampling_off.given)


class GatewaySettings(BaseModel):
    """The gateway's whole configuration. No limit on time touches a healthy stream.

    `upstream` is the short form for one SGLang arm; else `arms` lists them.

    `model_aliases` are further names for the one model. They go to the engine as they are: SGLang answers to any
    name and echoes it, but reads what follows a `:` as an adapter's name, so an alias can't hold one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstream: str | None = None
    """The engine's root URL, such as http://127.0.0.1:30000."""
    arms: tuple[ArmSettings, ...] = ()
    served_model_name: ModelName
    model_aliases: tuple[ModelName, ...] = ()
    modalities: tuple[Modality, ...] = ("text", "image")
    context_length: PositiveInt | None = None
    connect_timeout_s: PositiveFloat = 5.0
    """Until the engine's socket accepts."""
    first_token_timeout_s: PositiveFloat = 600.0
    """Streams: from the request until the first token. Queue and prefill pass in silence."""
    idle_timeout_s: PositiveFloat = 600.0
    """Streams: between two reads. Long, since `stream_reasoning: false` holds a whole thought back."""
    answer_timeout_s: PositiveFloat = 3600.0
    """Without streaming: from the request until the whole answer is here."""
    queue_timeout_s: PositiveFloat = 60.0
    """In the gateway's own queue, before the engine is asked."""
    workers: PositiveInt = 1
    """Processes that share the socket; each one's share of a limit is the limit / workers."""
    probe: ProbeSettings = ProbeSettings()
    breaker: BreakerSettings = BreakerSettings()
    retry_after_s: NonNegativeInt = 5
    """Sent as `Retry-After` with every 503 and 429."""
    max_body_bytes: PositiveInt = 64 * 1024 * 1024
    """Holds a 32 MiB image as a base64 data URI and the rest of the conversation."""
    max_image_bytes: PositiveInt = 32 * 1024 * 1024
    """Of one data URI, decoded."""
    remote_media_hosts: tuple[str, ...] = ()
    """Hosts that an engine may fetch images from. Empty: none, since fetching lets clients reach the inside."""
    upstream_api_key: SecretStr | None = None
    """For `upstream`; see ArmSettings.api_key."""
    keys_file: Path | None = None
    """API keys; see auth/keys.py. None: everyone is served."""
    key_max_concurrency: PositiveInt | None = None
    """Requests of one key at once, queued ones included, unless the keys file says otherwise; more get 429."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call /v1; `*` for all. Empty: no CORS headers."""
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    """The one name under which clients get the model's thoughts, whatever the arm calls them."""
    thinking: ThinkingSettings = ThinkingSettings()
    experiment: ExperimentSettings | None = None
    """Deals the conversations in place of the arms' weights, and compares the arms."""
    conversation_log: ConversationLogSettings | None = None
    """Records what is answered well, as training material. None: nothing is."""
    allowed_engine_fields: tuple[str, ...] = ()
    """Fields of dialect/refused.py that clients may send all the same."""
    sticky_header: str = "x-conversation-id"
    """Conversations with the same value stay on one arm."""
    sticky_salt: str = ""
    """Changing it deals the conversations anew."""

    @field_validator("upstream")
    @classmethod
    def _is_server_root(cls, url: str | None) -> str | None:
        return None if url is None else server_root("upstream", url)

    @field_validator("model_aliases")
    @classmethod
    def _no_adapter_syntax(cls, aliases: tuple[str, ...]) -> tuple[str, ...]:
        for alias in aliases:
            if ":" in alias:
                raise ValueError(
                    f"model_aliases has {alias!r}: choose a name without ':', SGLang reads it as an adapter"
                )
        return aliases

    @model_validator(mode="after")
    def _has_arms(self) -> Self:
        if (self.upstream is None) == (not self.arms):
            raise ValueError("give either upstream or arms: where requests go")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"arms has names {names}: give each arm its own")
        if self.arms and not any(arm.weight for arm in self.arms):
            raise ValueError("every arm's weight is 0: give one of them more, or no request has where to go")
        return self

    @model_validator(mode="after")
    def _experiment_has_arms(self) -> Self:
        experiment = self.experiment
        if experiment is not None:
            known = [arm.name for arm in self.every_arm]
            for arm in (experiment.control, *experiment.treatments):
                if arm not in known:
                    raise ValueError(f"experiment names the arm {arm!r}; the arms are: {', '.join(known)}")
        return self

    @model_validator(mode="after")
    def _log_keeps_what_is_full(self) -> Self:
        log = self.conversation_log
        if log is not None and log.keep <= self.workers:
            raise ValueError(
                f"conversation_log.keep is {log.keep} and workers {self.workers}, each of which writes a file: keep at "
                f"least {self.workers + 1}, or a full file would be removed at once"
            )
        return self

    @property
    def model_names(self) -> tuple[str, ...]:
        """Every name a request may use, the served one first."""
        return (self.served_model_name, *self.model_aliases)

    @property
    def every_arm(self) -> tuple[ArmSettings, ...]:
        """The arms, the short form spelt out."""
        if self.upstream is None:
            return self.arms
        return (ArmSettings(name="sglang", url=self.upstream, api_key=self.upstream_api_key),)
