"""Metrics of several processes as one, through files in a directory (prometheus_client's multiprocess mode)."""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client reads it once, when it is first imported."""


def shared_registry() -> CollectorRegistry | None:
    """A view of every process's metrics; None if this process keeps its metrics to itself."""
    if not os.environ.get(VARIABLE):
        return None
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def clear(directory: Path) -> None:
    """Makes the directory, and removes what an earlier run left there: it would be counted again."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.glob("*.db"):
        file.unlink(missing_ok=True)
