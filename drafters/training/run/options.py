"""What a whole training run is asked for: one YAML file."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.export.options import ExportOptions
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.settings import Settings
from k25serve.drafters.training.vocab.options import VocabOptions

AUX = 3


class EngineOptions(Settings):
    """The engine that captures, started from `profile` with `set` on top, without speculation.

    layers: the three whose outputs are taken, counted from 0. port: None takes a free one. staging: where it leaves its
    files, best in memory (/dev/shm/...); None: in the run's own folder. extra_args: added to the profile's.
    """

    profile: Annotated[str, Field(min_length=1)]
    set: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    layers: tuple[Annotated[int, Field(ge=0)], ...]
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    staging: Path | None = None

    @field_validator("layers")
    @classmethod
    def _ascend(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        if len(layers) != AUX or list(layers) != sorted(set(layers)):
            raise ValueError("give three layers that ascend, counted from 0, like [1, 29, 57]")
        return layers


class GateOptions(Settings):
    """Acceptance of the result on `prompts` held-out prompts, served from `profile`; `baseline`: a drafter to compare.

    policy refuse: an accept length below `accept_floor` makes the run fail.
    """

    profile: Annotated[str, Field(min_length=1)]
    set: tuple[str, ...] = ()
    baseline: str | None = None
    prompts: Annotated[int, Field(ge=1, le=100_000)] = 50
    max_tokens: Annotated[int, Field(ge=1)] = 128
    accept_floor: Annotated[float, Field(ge=1)] = 1.0
    policy: Literal["warn", "refuse"] = "warn"


class RunConfig(Settings):
    """The steps' own settings, the engine's, and how the machine is shared.

    target: a folder, `packaged:target`, or $NAME. hidden_bytes: the most that hidden states may take; where all of them
    take more, the run goes part by part: captured, fitted for all epochs, dropped. keep_engine: leave the engine up
    while fitting, where memory holds both. processes: GPUs that fit. check: captured samples that are compared with a
    plain forward. machine: of the estimate, for --plan.
    """

    target: Annotated[str, Field(min_length=1)]
    data: DataOptions
    vocab: VocabOptions = VocabOptions()
    engine: EngineOptions
    capture: CaptureOptions = Field(default_factory=lambda: CaptureOptions.model_validate({}))
    fit: FitOptions
    export: ExportOptions = ExportOptions()
    gate: GateOptions | None = None
    check: Annotated[int, Field(ge=0)] = 3
    hidden_bytes: Annotated[int, Field(ge=1)] | None = None
    keep_engine: bool = False
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    machine: str = "rtx-pro-6000-server-x8"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.capture.layers is not None and self.capture.layers != self.engine.layers:
            raise ValueError("capture.layers is not engine.layers; leave it out, the run takes engine.layers")
        if self.data.held_out == 0:
            raise ValueError("data.held_out is 0: the fit is judged on held-out samples; give a share like 0.05")
        return self
