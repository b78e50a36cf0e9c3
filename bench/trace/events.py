"""What one rank's trace file holds, as arrays: device events, launches, spans. Times are in nanoseconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NO_CORRELATION = -1
NO_TIME = int(np.iinfo(np.int64).min)  # of a launch that the trace does not hold


class KernelName(NamedTuple):
    """A device event's name, with NCCL's own word for the collective where the profiler recorded it."""

    name: str
    collective: str = ""


class Span(NamedTuple):
    """A range that the engine marked on the host: one forward step, named by its forward mode."""

    start: int
    end: int
    mode: str
    label: str


class Skipped(NamedTuple):
    """An event that could not be read and holds no device time."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class DeviceEvents:
    """Kernels, copies and memsets, one row each.

    start, end [n] ns; name [n] index into RankEvents.names; stream, correlation [n]; nbytes [n] of a collective,
    0 where the trace does not tell; calls [n] 1, or 0 for a further piece of an event that was cut in pieces.
    A trace holds millions of these, so each column is as narrow as it may be.
    """

    start: Ints
    end: Ints
    name: NDArray[np.int32]
    stream: NDArray[np.int32]
    correlation: Ints
    nbytes: NDArray[np.integer[Any]]
    calls: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: NDArray[Any]) -> "DeviceEvents":
        """The rows that a mask or an index selects."""
        return DeviceEvents(*(getattr(self, name)[rows] for name in DeviceEvents.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Launches:
    """Calls of the driver that put work on the device: correlation [m], at [m] ns, graph [m] 1 for a graph replay."""

    correlation: Ints
    at: Ints
    graph: Ints


@dataclass(frozen=True, slots=True)
class RankEvents:
    """One rank. `cpu` says that the trace has no device: its rows are then the self time of host operators.

    unknown: events by category that no rule knows. other_ranges: some of the ranges that mark no step, by name.
    """

    path: Path
    header: dict[str, Any]
    names: tuple[KernelName, ...]
    device: DeviceEvents
    launches: Launches
    spans: tuple[Span, ...]
    cpu: bool = False
    skipped: tuple[Skipped, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    other_ranges: tuple[str, ...] = ()
    bytes_read: int = 0
    events_seen: int = field(default=0)
