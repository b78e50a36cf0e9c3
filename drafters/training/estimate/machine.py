"""A machine as data: what its maker says of it, what was measured on it, what is guessed."""

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, model_validator

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.near_miss import near_misses
from k25serve.drafters.training.settings import Settings, shown, validated

FOLDER = Path(__file__).with_name("machines")
Positive = Annotated[float, Field(gt=0)]


class Rate(Settings):
    """Either tokens a second as measured with a target of `active_parameters` and `weight_bytes`, or a share of the
    peak (of arithmetic for prefill and fit, of memory bandwidth for decode) that is assumed to be reached.
    """

    tokens_per_s: Positive | None = None
    active_parameters: Positive | None = None
    weight_bytes: Positive | None = None
    efficiency: Annotated[float, Field(gt=0, le=1)] | None = None
    kind: Literal["measured", "guess"]
    source: str

    @model_validator(mode="after")
    def _one_of_them(self) -> "Rate":
        if (self.tokens_per_s is None) == (self.efficiency is None):
            raise ValueError("needs tokens_per_s or efficiency, one of them")
        if self.tokens_per_s is not None and (self.active_parameters is None or self.weight_bytes is None):
            raise ValueError("tokens_per_s needs the active_parameters and weight_bytes of the target it is of")
        return self


class Machine(Settings):
    """`memory_gb`, `load_gb_s`: 1e9 bytes; `memory_gb`, `bf16_tflops`, `memory_tb_s` of one GPU, dense, from `source`.

    `decode`: tokens a second of all requests together, at `decode_concurrency`. `load`: how fast weights are loaded;
    `start_s`: what an engine's start takes besides.
    """

    name: str
    gpu: str
    gpus: Annotated[int, Field(ge=1)]
    memory_gb: Positive
    bf16_tflops: Positive
    memory_tb_s: Positive
    links: Literal["pcie", "nvlink", "none"]
    link_gb_s: Annotated[float, Field(ge=0)]
    source: str
    prefill: Rate
    decode: Rate
    decode_concurrency: Annotated[int, Field(ge=1)]
    fit: Rate
    load_gb_s: Positive
    load_source: str
    start_s: Annotated[float, Field(ge=0)] = 0

    @property
    def peak_flops(self) -> float:
        """Of all GPUs, bf16, operations a second."""
        return self.gpus * self.bf16_tflops * 1e12


def machine_names() -> list[str]:
    """The packaged machines."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_machine(name: str, option: str = "--machine") -> Machine:
    """A packaged machine, or a YAML file of the same keys. Raises TrainingError."""
    path = FOLDER / f"{name}.yaml"
    if not name.isprintable() or "/" in name or name.endswith((".yaml", ".yml")) or not path.is_file():
        path = Path(name)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise TrainingError(
            f"{option} {shown(name)}: not a YAML file ({str(error).splitlines()[0]}); mend it"
        ) from None
    if data is None:
        known = machine_names()
        near = near_misses(name, known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise TrainingError(f"{option} {shown(name)}: unknown machine; {hint}give one of {', '.join(known)} or a file")
    if not isinstance(data, dict):
        raise TrainingError(f"{option} {shown(name)}: must be a mapping of keys; compare it with a packaged one")
    return validated(Machine, {"name": path.stem, **data}, lambda key: f"{option} {shown(name)}: {key}")
