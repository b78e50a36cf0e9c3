"""Which rank of the engine a scheduler process is."""

import os
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Rank:
    """Tensor and pipeline rank."""

    tp: int
    pp: int

    @property
    def is_first(self) -> bool:
        """Whether it is the one that counts what all ranks do alike."""
        return self.tp == 0 and self.pp == 0

    def as_dict(self) -> dict[str, int]:
        """For a report."""
        return asdict(self)


def this_rank() -> Rank:
    """Rank of this scheduler, once SGLang has set up its process groups."""
    from sglang.srt.runtime_context import get_parallel

    parallel = get_parallel()
    return Rank(parallel.tp_rank, parallel.pp_rank)


def counts_here() -> bool:
    """Whether this rank is the one that counts for the engine's /metrics, and there is a /metrics.

    With --enable-metrics SGLang sets the folder in which it collects every process's files.
    """
    return bool(os.environ.get("PROMETHEUS_MULTIPROC_DIR")) and this_rank().is_first
