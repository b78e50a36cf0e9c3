"""What a deployment is: one frozen object, made once and passed down."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from k25serve.patches.manifest import ROWS
from k25serve.patches.manifest.switches import choose
from k25serve.server.config.shown import shown
from k25serve.server.config.versions import SUPPORTED_SGLANG
from k25serve.server.gateway.arms.settings import ArmOptions
from k25serve.server.gateway.conversations.settings import ConversationLogSettings
from k25serve.server.gateway.experiment.settings import ExperimentSettings
from k25serve.server.gateway.settings import BreakerSettings, Modality, ThinkingSettings

# The patch that speculation.adaptive switches on.
ADAPTIVE = "adaptive_costs"
# It becomes a part of file names.
NAME = re.compile(r"\w[\w.-]{0,63}", re.ASCII)


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; give it a value, or remove the key if it has a default")
    if not value.isprintable():
        raise ValueError("holds a character that cannot be printed; remove it")
    return value


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a NUL character, which no process can be given; remove it")
    return value


def _switch(value: Any) -> Any:
    if isinstance(value, dict):
        for name, option in value.items():
            if not isinstance(option, bool | int | float | str):
                raise ValueError(f"{name} = {shown(option)}: an option is a number, true, false or text; mend it")
    elif not isinstance(value, bool):
        raise ValueError("write true, false, or a mapping of the patch's options; `k25serve patches list` tells of it")
    return value


Text = Annotated[str, AfterValidator(_text)]
Argument = Annotated[str, AfterValidator(_no_nul)]
Switch = Annotated[bool | dict[str, bool | int | float | str], BeforeValidator(_switch)]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1)]
UpTo64 = Annotated[int, Field(ge=1, le=64)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A part of a profile: unknown keys are errors, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Engine(Section):
    """How SGLang runs. Its HTTP server binds to loopback, always.

    `release_timeout_s`: how long a start waits for GPU memory and ports that an engine before it still holds.
    """

    version: str = SUPPORTED_SGLANG[0]
    device: Literal["cuda", "cpu"]
    tp: UpTo64 = 1
    port: Port = 30000
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "bfloat16"
    kv_cache_dtype: Literal["auto", "bf16", "fp8_e4m3", "fp8_e5m2"] = "auto"
    attention_backend: Text | None = None
    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)]
    max_total_tokens: Positive | None = None
    max_running_requests: Positive
    cuda_graph_batch_sizes: tuple[Positive, ...] = ()
    tool_call_parser: Text = "kimi_k2"
    reasoning_parser: Text = "kimi_k2"
    trust_remote_code: bool = True
    random_seed: int | None = None
    ready_timeout_s: Seconds
    stop_timeout_s: Seconds = 30
    release_timeout_s: Seconds = 60
    env: dict[str, Argument] = {}
    extra_args: tuple[Argument, ...] = ()

    @field_validator("version")
    @classmethod
    def _supported(cls, version: str) -> str:
        if version not in SUPPORTED_SGLANG:
            raise ValueError(f"this release supports SGLang {' and '.join(SUPPORTED_SGLANG)}")
        return version

    @field_validator("env")
    @classmethod
    def _names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{shown(name)} is no name of an environment variable; write NAME: VALUE")
        return env

    @model_validator(mode="after")
    def _graphs_cover_batch(self) -> Self:
        sizes = self.cuda_graph_batch_sizes
        if sizes and max(sizes) < self.max_running_requests:
            raise ValueError(
                f"cuda_graph_batch_sizes ends at {max(sizes)}, below max_running_requests {self.max_running_requests}: "
                "larger batches would run without a graph; add the size or lower max_running_requests"
            )
        return self


class Speculation(Section):
    """How tokens are drafted. All choices are lossless up to numerics.

    `adaptive`: a file of `k25serve bench plan adaptive`, by which the number of draft steps follows load and
    acceptance; `num_steps` is where it begins.
    """

    algorithm: Literal["none", "eagle3", "ngram"] = "none"
    drafter: Text | None = None
    num_steps: Positive | None = None
    topk: Positive = 1
    num_draft_tokens: Positive | None = None
    adaptive: Text | None = None
    draft_attention_backend: Text | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.algorithm == "eagle3":
            if self.drafter is None:
                raise ValueError("algorithm eagle3 needs drafter: the folder of an EAGLE-3 draft model")
            if self.num_steps is None or self.num_draft_tokens is None:
                raise ValueError("algorithm eagle3 needs num_steps and num_draft_tokens (3 and 4 are usual)")
            if self.topk == 1 and self.num_draft_tokens != self.num_steps + 1:
                raise ValueError(
                    f"num_draft_tokens {self.num_draft_tokens} with topk 1 must be num_steps + 1 = {self.num_steps + 1}"
                )
            return self
        if self.algorithm == "ngram" and self.num_draft_tokens is None:
            raise ValueError("algorithm ngram needs num_draft_tokens")
        unused = {"drafter": self.drafter, "num_steps": self.num_steps, "adaptive": self.adaptive}
        if self.algorithm == "none":
            unused["num_draft_tokens"] = self.num_draft_tokens
        for name, value in unused.items():
            if value is not None:
                raise ValueError(f"{name} {shown(value)} has no effect with algorithm {self.algorithm}; remove it")
        return self


class GatewayArm(ArmOptions):
    """An upstream of the gateway; without a `url` it is the profile's own engine."""

    url: str | None = None


class Gateway(Section):
    """Where clients connect, and what the gateway does; what is unset here is as GatewaySettings has it.

    `drain_notice_s`: how long /ready says 503 before the socket closes. `drain_s`: how long running requests may then
    take. `allow_unauthenticated`: binding beyond loopback without keys is meant. `experiment`: its keys are in
    gateway/experiment/settings.py. `conversation_log`: in gateway/conversations/settings.py.
    """

    host: Text = "127.0.0.1"
    port: Port = 8000
    workers: UpTo64 = 1
    drain_s: Positive = 30
    drain_notice_s: Annotated[float, Field(ge=0)] = 0
    allow_unauthenticated: bool = False
    keys_file: Path | None = None
    key_max_concurrency: Positive | None = None
    arms: tuple[GatewayArm, ...] = ()
    model_aliases: tuple[str, ...] = ()
    modalities: tuple[Modality, ...] | None = None
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    thinking: ThinkingSettings = ThinkingSettings()
    cors_origins: tuple[str, ...] = ()
    remote_media_hosts: tuple[str, ...] = ()
    max_image_bytes: Positive | None = None
    max_body_bytes: Positive | None = None
    allowed_engine_fields: tuple[str, ...] = ()
    sticky_header: str | None = None
    sticky_salt: str | None = None
    experiment: ExperimentSettings | None = None
    conversation_log: ConversationLogSettings | None = None
    breaker: BreakerSettings = BreakerSettings()
    retry_after_s: Positive | None = None
    connect_timeout_s: Seconds | None = None
    queue_timeout_s: Seconds | None = None
    first_token_timeout_s: Seconds | None = None
    idle_timeout_s: Seconds | None = None
    answer_timeout_s: Seconds | None = None


class Gate(Section):
    """The acceptance gate at start: what a drafter must reach on the packaged prompts, and what else happens.

    `entry`: the drafter's entry in the registry, whose published acceptance is expected. `off` asks nothing.
    """

    policy: Literal["warn", "refuse", "off"] = "warn"
    accept_floor: Annotated[float, Field(ge=1)] = 1.3
    entry: str | None = None


class Profile(Section):
    """A named deployment: target, engine, speculation, gate and gateway.

    `patches`: changes to SGLang that are not as `k25serve patches list` has them: off, on, or on with these options.
    """

    name: str
    target: Text
    served_model_name: Text
    context_length: Positive
    engine: Engine
    speculation: Speculation = Speculation()
    gate: Gate = Gate()
    gateway: Gateway = Gateway()
    patches: dict[str, Switch] = {}

    @property
    def switches(self) -> dict[str, Switch]:
        """`patches`, and what other keys of the profile switch on."""
        return {ADAPTIVE: True, **self.patches} if self.speculation.adaptive is not None else self.patches

    @property
    def lossy(self) -> tuple[str, ...]:
        """Patches that are on and change the target's output."""
        chosen = choose(ROWS, self.switches, self.engine.version, self.engine.device)
        return tuple(item.row.name for item in chosen if item.row.lossy)

    @field_validator("name")
    @classmethod
    def _part_of_a_file_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("use 1 to 64 letters, digits, _ . or -, none of . and - first; pass --set name=NAME")
        return name

    @model_validator(mode="after")
    def _entry_has_effect(self) -> Self:
        if self.gate.entry is not None and self.speculation.algorithm != "eagle3":
            raise ValueError(
                f"gate.entry {shown(self.gate.entry)} has no effect with algorithm {self.speculation.algorithm}; "
                "remove it"
            )
        return self

    @model_validator(mode="after")
    def _patches_apply(self) -> Self:
        choose(ROWS, self.switches, self.engine.version, self.engine.device)
        if self.speculation.adaptive is None and self.patches.get(ADAPTIVE):
            raise ValueError(f"patches.{ADAPTIVE} has no effect without speculation.adaptive; remove it")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        if self.engine.port == self.gateway.port:
            raise ValueError(f"engine.port and gateway.port are both {self.engine.port}; give them different ports")
        return self
