"""What can be chosen of a capture."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SplitName = Literal["train", "held_out"]
SPLITS: tuple[SplitName, ...] = ("train", "held_out")


class CaptureOptions(BaseModel):
    """Settings of a capture.

    layers: physical layers that the engine must capture; None takes what it does. concurrency: requests at a time; with
    1 no batches form, and a CPU engine gives the same bits each time. verify: whether sealed shards are read again
    (`hash`) or their files' sizes looked at. disk_budget_bytes: the most that the shards asked for may take.
    timeout_s: for one request, and for its file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: tuple[int, ...] | None = None
    concurrency: int = Field(1, ge=1)
    rows_per_shard: int = Field(256, ge=1)
    verify: Literal["hash", "size"] = "hash"
    disk_budget_bytes: int | None = Field(None, ge=0)
    timeout_s: float = Field(600.0, gt=0)
    splits: tuple[SplitName, ...] = SPLITS
