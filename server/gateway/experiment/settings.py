"""What an experiment is told once, at start."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from k25serve.server.gateway.arms.settings import ArmName

Metric = Literal["tpot", "ttft"]
Covariate = Literal["prompt", "cached", "output", "load"]
Share = Annotated[float, Field(gt=0, lt=1)]


class Guardrails(BaseModel):
    """When an arm gets no more requests; None: never for this reason.

    Looked at every few seconds over the last `window_minutes`. An arm goes when what was seen there would have a chance
    under one in a thousand if the arm were just at its limit. The last arm that is left stays whatever it does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_minutes: Annotated[int, Field(ge=1, le=1440)] = 10
    min_requests: PositiveInt = 50
    """In the window, before an arm is judged."""
    error_share: Share | None = 0.05
    """Requests that the engine failed, of all requests."""
    ttft_p99_s: PositiveFloat | None = None
    """Streams: at most one request in a hundred may wait longer for its first token, seconds."""
    finish_excess: Share | None = None
    """Answers that ended otherwise than with `stop` or a tool call: share above the control's."""
    wasted_share: Share | None = None
    """Tokens given out for answers that nobody stayed for, of all tokens given out."""


class Shadow(BaseModel):
    """An arm that gets copies of requests and whose answers nobody gets. It must have a weight in no experiment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: ArmName
    share: Annotated[float, Field(gt=0, le=1)]
    """Of the conversations; a conversation is copied whole or not at all, so that prefix caches see what they would."""
    max_concurrency: PositiveInt = 8
    """Copies at the arm at once, in each worker."""
    max_queue: PositiveInt = 64
    """Copies that wait, in each worker; more are dropped and counted."""
    max_queue_bytes: PositiveInt = 64 * 1024 * 1024
    """Their bodies together."""
    timeout_s: PositiveFloat = 600.0
    """For one copy."""


class ExperimentSettings(BaseModel):
    """An experiment on live traffic. One state file holds one experiment; a new one needs a new name and file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    state: Path
    """SQLite file, made if it isn't there; not on a network file system."""
    salt: Annotated[str, Field(max_length=200)] = ""
    """Deals the conversations anew, together with the name."""
    mode: Literal["ab", "aa"] = "ab"
    """aa: the arms are known to be equal, so that a difference means that the measurement isn't to be trusted."""
    control: ArmName
    """The arm that the others are compared with, and that gets everything once the experiment is stopped."""
    weights: dict[ArmName, Annotated[float, Field(gt=0, allow_inf_nan=False)]]
    """Shares of the conversations, in place of the arms' own weights; an arm that isn't here gets none."""
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1)] = ("tpot", "ttft")
    covariates: tuple[Covariate, ...] = ("prompt", "cached", "output", "load")
    """What is held equal: tokens of the prompt, cached ones, tokens given out, requests at the arm on admission."""
    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """Chance of finding a difference, ever, where there is none; shared by all metrics and arms."""
    min_output_tokens: Annotated[int, Field(ge=2)] = 16
    """Shorter answers have no time per output token: under speculation they may come in one step."""
    guardrails: Guardrails = Guardrails()
    shadow: Shadow | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.control not in self.weights:
            raise ValueError(f"control is {self.control!r}, which weights don't name: {', '.join(self.weights)}")
        if self.shadow is not None and self.shadow.arm in self.weights:
            raise ValueError(f"shadow.arm {self.shadow.arm!r} has a weight: remove it from weights, or choose another")
        if len(self.weights) == 1 and self.shadow is None:
            raise ValueError("weights name one arm and there is no shadow: name a second arm to compare it with")
        for field in ("metrics", "covariates"):
            values = getattr(self, field)
            if len(set(values)) < len(values):
                raise ValueError(f"{field} is {list(values)}: name each once")
        return self

    @property
    def treatments(self) -> tuple[str, ...]:
        """The arms that are compared with the control, the shadow last."""
        others = [arm for arm in self.weights if arm != self.control]
        return (*others, self.shadow.arm) if self.shadow is not None else tuple(others)

    @property
    def comparison_alpha(self) -> float:
        """Each comparison's part of alpha (Bonferroni)."""
        return self.alpha / (len(self.metrics) * len(self.treatments))
