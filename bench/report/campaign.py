"""What a campaign is for, and what it has ruled out: read from a short YAML file."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from k25serve.bench.plan.data_files import checked, from_file

Words = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Target(Part):
    """Output tokens a second of all requests, without added context, on a machine with `gpus` GPUs named like `gpu`."""

    what: Words
    concurrency: PositiveInt
    gpu: Words
    gpus: PositiveInt
    more_than: PositiveFloat | None = None
    at_least: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.more_than is None) == (self.at_least is None):
            raise ValueError("give one of more_than and at_least")
        return self

    def met(self, tokens_per_s: float) -> bool:
        """Whether that is enough."""
        if self.more_than is not None:
            return tokens_per_s > self.more_than
        return tokens_per_s >= (self.at_least or 0.0)


class RuledOut(Part):
    """Something that is not tried again before `retry` holds."""

    what: Words
    evidence: Words
    retry: Words


class Campaign(Part):
    """next: what is to be done, beyond what the report finds missing."""

    goal: Words
    constraints: tuple[Words, ...] = ()
    targets: tuple[Target, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    next: tuple[Words, ...] = ()


def load_campaign(path: Path | None) -> Campaign:
    """The file's, else the packaged one. Raises UserError in one line for a file that is none."""
    if path is None:
        text = files("k25serve.bench.report").joinpath("campaign.yaml").read_text(encoding="utf-8")
        return checked("campaign.yaml", Campaign, yaml.safe_load(text))
    return checked(f"--campaign {path}", Campaign, from_file("--campaign", path))
