"""Raw events -> the arrays of one rank. Events that no share depends on are dropped before they are parsed."""

import re
from array import array
from collections.abc import Callable, Collection, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from k25serve.bench.trace.cpu_ops import self_time
from k25serve.bench.trace.errors import DamagedTrace, TraceError
from k25serve.bench.trace.events import (
    NO_CORRELATION,
    DeviceEvents,
    Ints,
    KernelName,
    Launches,
    RankEvents,
    Skipped,
    Span,
)
from k25serve.bench.trace.layout import Batch, EventStream
from k25serve.bench.trace.modes import SpanRules
from k25serve.bench.trace.stream import OnBytes

# A category's first six bytes -> what it is. Kineto's writer (output_json.cpp); capitals: torch before 1.13.
DEVICE, LAUNCH, SPAN, HOST_OP, IGNORED = "device", "launch", "span", "host_op", "ignored"
CATEGORIES = {
    **dict.fromkeys((b"kernel", b"gpu_me", b"Kernel", b"Memcpy", b"Memset"), DEVICE),
    **dict.fromkeys((b"cuda_r", b"cuda_d", b"Runtim"), LAUNCH),
    b"user_a": SPAN,
    **dict.fromkeys((b"cpu_op", b"Operat"), HOST_OP),
    **dict.fromkeys((b"python", b"gpu_us", b"cpu_in", b"overhe", b"Trace", b"fwdbwd", b"ac2g", b"cuda_s"), IGNORED),
}
X_EVENT = re.compile(rb'\s*"ph": "X",\s*"cat": "')
OTHER_PHASE = re.compile(rb'\s*"ph": "[^X]"')  # metadata, flows, instants
CATEGORY = re.compile(rb'"cat"\s*:\s*"([^"]*)"')
# Driver calls that put work on the device; the others (event queries, synchronisation) are left out.
LAUNCHING = re.compile("Launch|Memcpy|Memset")
TIME = re.compile(rb'"ts"\s*:\s*(\d+)(?:\.(\d+))?')
# Above this many microseconds a double no longer holds whole nanoseconds, so the digits are read instead.
EXACT_US = float(1 << 43)
ELEMENT_BYTES = {
    **dict.fromkeys(("BFloat16", "Half", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
}


def collect(path: Path, rules: SpanRules, on_bytes: OnBytes = lambda _: None) -> RankEvents:
    """Read one trace file. Raises TraceError: damaged, cut, or without anything to measure."""
    stream = EventStream(path, on_bytes)
    collector = _Collector(path, rules, host_ops=not stream.header.get("deviceProperties"))
    for batch in stream.batches():
        collector.add(batch)
    return collector.finish(stream.header, stream.size)


class _Rows:
    """Growing columns of integers, 8 bytes wide unless named in `narrow` (4 bytes)."""

    def __init__(self, *names: str, narrow: Collection[str] = ()) -> None:
        self._columns = {name: array("i" if name in narrow else "q") for name in names}

    def extend(self, **values: Sequence[int] | Ints) -> None:
        for name, column in values.items():
            self._columns[name].frombytes(np.asarray(column, dtype=self._columns[name].typecode).tobytes())

    def column(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self._columns[name], dtype=self._columns[name].typecode)


class _Collector:
    def __init__(self, path: Path, rules: SpanRules, *, host_ops: bool) -> None:
        self._path, self._rules, self._host_ops = path, rules, host_ops
        self._ids: dict[KernelName, int] = {}
        self._device = _Rows(
            *("start", "end", "name", "stream", "correlation", "nbytes"), narrow=("name", "stream", "nbytes")
        )
        self._launch = _Rows("correlation", "at", "graph")
        self._host = _Rows("start", "dur", "name", "thread")
        self._spans: list[Span] = []
        self._skipped: list[Skipped] = []
        self._seen = 0
        self._prefix = 0
        self._takers: dict[str, Callable[[list[dict[str, Any]], Ints], None]] = {
            DEVICE: self._take_device,
            LAUNCH: self._take_launches,
            SPAN: self._take_spans,
            HOST_OP: self._take_host_ops,
        }

    def add(self, batch: Batch) -> None:
        self._seen += len(batch.events)
        groups: dict[str, list[int]] = {kind: [] for kind in self._takers}
        for index, kind in enumerate(self._kinds(batch)):
            if kind in groups:
                groups[kind].append(index)
        if not self._host_ops:
            del groups[HOST_OP]
        for kind, indices in groups.items():
            if indices:
                events, starts = self._decode(batch, indices, kind)
                if events:
                    self._takers[kind](events, starts)

    def _kinds(self, batch: Batch) -> list[str]:
        """What each event is, told from its category without parsing it."""
        if not self._prefix and batch.kineto:
            matches = (X_EVENT.match(event) for event in batch.events)
            self._prefix = next((match.end() for match in matches if match), 0)
        start, end = self._prefix, self._prefix + 6
        get = CATEGORIES.get
        kinds = [get(event[start:end]) for event in batch.events] if start else [None] * len(batch.events)
        return [kind or self._slow_kind(event) for kind, event in zip(kinds, batch.events, strict=True)]

    def _slow_kind(self, event: bytes) -> str:
        if OTHER_PHASE.match(event):
            return IGNORED
        found = CATEGORY.search(event)
        return CATEGORIES.get(found.group(1)[:6].rstrip(b'"'), IGNORED) if found else IGNORED

    def _decode(self, batch: Batch, indices: list[int], kind: str) -> tuple[list[dict[str, Any]], Ints]:
        """Parsed events that lasted, and their starts in ns."""
        raw = [batch.events[index] for index in indices]
        try:
            events = orjson.loads(b"[{" + b"},{".join(raw) + b"}]")
        except orjson.JSONDecodeError:
            events, raw = self._decode_singly(batch, indices, kind)
        lasted = [_lasted(event) for event in events]
        if not all(lasted):
            events, raw = list(compress(events, lasted)), list(compress(raw, lasted))
        times = np.array([event["ts"] for event in events], dtype=np.float64)
        if len(times) and times.max() >= EXACT_US:
            return events, np.array([_exact_ns(text) for text in raw], dtype=np.int64)
        return events, np.rint(times * 1000).astype(np.int64)

    def _decode_singly(self, batch: Batch, indices: list[int], kind: str) -> tuple[list[dict[str, Any]], list[bytes]]:
        events, kept = [], []
        for index in indices:
            text = batch.events[index]
            try:
                events.append(orjson.loads(b"{" + text + b"}"))
                kept.append(text)
            except orjson.JSONDecodeError as error:
                offset = batch.offset_of(index)
                if kind == DEVICE:
                    raise DamagedTrace(
                        self._path, offset, f"a device event is not JSON ({error.msg}), so no share can be told; error"
                    ) from None
                self._skipped.append(Skipped(offset, text[:160].decode(errors="replace")))
        return events, kept

    def _name_ids(self, names: list[KernelName]) -> list[int]:
        ids = self._ids
        return [ids.setdefault(name, len(ids)) for name in names]

    def _take_device(self, events: list[dict[str, Any]], starts: Ints) -> None:
        args = [event.get("args", {}) for event in events]
        collectives = [a.get("Collective name", "") for a in args]
        names = [KernelName(e["name"], c) for e, c in zip(events, collectives, strict=True)]
        self._device.extend(
            start=starts,
            end=starts
            + np.rint(np.array([event["dur"] for event in events], dtype=np.float64) * 1000).astype(np.int64),
            name=self._name_ids(names),
            stream=[_integer(a.get("stream", e.get("tid"))) for a, e in zip(args, events, strict=True)],
            correlation=[a.get("correlation", NO_CORRELATION) for a in args],
            nbytes=[_collective_bytes(a) if c else 0 for a, c in zip(args, collectives, strict=True)],
        )

    def _take_launches(self, events: list[dict[str, Any]], starts: Ints) -> None:
        puts_work = [bool(LAUNCHING.search(event["name"])) for event in events]
        events = list(compress(events, puts_work))
        self._launch.extend(
            correlation=[event.get("args", {}).get("correlation", NO_CORRELATION) for event in events],
            at=starts[puts_work],
            graph=["GraphLaunch" in event["name"] for event in events],
        )

    def _take_spans(self, events: list[dict[str, Any]], starts: Ints) -> None:
        for event, start in zip(events, starts.tolist(), strict=True):
            mode = self._rules.mode(event["name"])
            if mode is not None:
                self._spans.append(Span(start, start + round(event["dur"] * 1000), mode, event["name"]))

    def _take_host_ops(self, events: list[dict[str, Any]], starts: Ints) -> None:
        self._host.extend(
            start=starts,
            dur=[round(event["dur"] * 1000) for event in events],
            name=self._name_ids([KernelName(event["name"]) for event in events]),
            thread=[_integer(event.get("tid")) for event in events],
        )

    def finish(self, header: dict[str, Any], size: int) -> RankEvents:
        column = self._device.column
        device = DeviceEvents(
            start=column("start"),
            end=column("end"),
            name=column("name"),
            stream=column("stream"),
            correlation=column("correlation"),
            nbytes=column("nbytes"),
            calls=np.ones(len(column("start")), np.int8),
        )
        host = self._host.column
        cpu = len(device) == 0 and len(host("start")) > 0
        if cpu:
            device = self_time(host("start"), host("dur"), host("name"), host("thread"))
        if len(device) == 0:
            raise TraceError(
                f"{self._path}: no kernel in {self._seen} events; profile with the GPU activity on "
                '(SGLang: /start_profile with "activities": ["CPU", "GPU"])'
            )
        launch = self._launch.column
        return RankEvents(
            path=self._path,
            header=header,
            names=tuple(self._ids),
            device=device,
            launches=Launches(launch("correlation"), launch("at"), launch("graph")),
            spans=tuple(sorted(self._spans)),
            cpu=cpu,
            skipped=tuple(self._skipped),
            bytes_read=size,
            events_seen=self._seen,
        )


def _lasted(event: dict[str, Any]) -> bool:
    return "dur" in event and "ts" in event and event.get("ph") == "X"


def _exact_ns(event: bytes) -> int:
    found = TIME.search(event)
    assert found is not None, "an event without ts was dropped before"
    return int(found.group(1)) * 1000 + int((found.group(2) or b"0")[:3].ljust(3, b"0"))


def _integer(value: object) -> int:
    return value if isinstance(value, int) else -1


def _collective_bytes(args: dict[str, Any]) -> int:
    """Bytes that a rank puts into a collective, from what torch records beside NCCL kernels; 2 GiB stands for more."""
    told = int(args.get("In msg nelems", 0)) * ELEMENT_BYTES.get(str(args.get("dtype", "")), 0)
    return min(told, 2**31 - 1)
