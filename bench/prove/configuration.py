"""What a campaign was told, kept in its folder: another one must not go on from its results."""

import hashlib
from typing import Annotated, Self

from pydantic import Field

from k25serve.bench.load.record import Frozen
from k25serve.server.config import load_profile

Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Targets(Frozen):
    """What was promised. tok/s: one stream's decode rate, more than; all 128 streams' throughput, at least."""

    single_tok_s: Number = 82.5
    total_tok_s: Number = 1536.0
    total_level: Annotated[int, Field(ge=1)] = 128


class Configuration(Frozen):
    """Everything that decides what is measured. profile_sha256: of the profiles as they are resolved.

    baseline_kv: the KV cache's precision, where the baseline doesn't tell it itself.
    """

    baseline_url: str
    baseline_unit: str | None
    profiles: tuple[str, ...]
    profile_sha256: tuple[str, ...]
    levels: tuple[int, ...]
    classes: tuple[str, ...]
    requests: int
    tokens: int
    seed: int
    baseline_kv: str | None
    calibration: str
    targets: Targets
    systemctl: tuple[str, ...]

    def differences(self, other: Self) -> list[str]:
        """Names and both values of what differs."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        return [f"{key} {theirs[key]} there, {mine[key]} now" for key in mine if mine[key] != theirs[key]]


def fingerprint(profile: str) -> str:
    """Of a profile with all that it extends. Raises ConfigError where it is none."""
    return hashlib.sha256(load_profile(profile, need_models=False).model_dump_json().encode()).hexdigest()
