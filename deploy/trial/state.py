"""What a trial is, on disk: below /run, which a reboot clears, and after a reboot production starts by itself."""

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from k25serve.server.errors import UserError

STATE = Path("/run/k25serve/trial.json")
TRIAL_UNIT = "k25serve-trial.service"
ROLLBACK_UNIT = "k25serve-rollback.service"

Phase = Literal["stopping production", "loading", "serving", "rolled back"]


class Trial(BaseModel):
    """One trial. `models`: the names that the gateway served before, which it must serve again.

    `gateway_started`: the gateway was not up before, so it goes with the trial. `reason`: why it was rolled back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str
    engine_unit: str
    engine_url: str
    model: str
    context_length: int
    production_unit: str
    gateway_url: str
    models: tuple[str, ...]
    back: str
    started: datetime
    phase: Phase = "stopping production"
    gateway_started: bool = False
    reason: str = ""


def read(path: Path = STATE) -> Trial | None:
    """The last trial since the machine started; None where there was none. Raises UserError if it can't be read."""
    try:
        return Trial.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise UserError(f"{path}: is no trial's record ({error.error_count()} faults); remove it") from None


def write(trial: Trial, path: Path = STATE) -> Trial:
    """Put `trial` on disk in one step; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(trial.model_dump_json(indent=2) + "\n", encoding="utf-8")
    part.replace(path)
    return trial


def change(trial: Trial, path: Path = STATE, **fields: object) -> Trial:
    """Write it with some fields changed; returns the new one."""
    return write(Trial.model_validate(trial.model_dump() | fields), path)
