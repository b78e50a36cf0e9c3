"""Raw events -> the arrays of one rank. Events that no share depends on are dropped before they are parsed."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.cpu_ops import self_time
from k25serve.bench.trace.decode import FAULTS, as_integer, as_stream, collective_bytes, decode, parse, reason
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
NAMELESS = "nameless"  # without a category: read only to see whether it can be
CATEGORIES = {
    **dict.fromkeys((b"kernel", b"gpu_me", b"Kernel", b"Memcpy", b"Memset"), DEVICE),
    **dict.fromkeys((b"cuda_r", b"cuda_d", b"Runtim"), LAUNCH),
    b"user_a": SPAN,
    **dict.fromkeys((b"cpu_op", b"Operat"), HOST_OP),
    **dict.fromkeys((b"python", b"gpu_us", b"cpu_in", b"overhe", b"Trace", b"fwdbwd", b"ac2g", b"async"), IGNORED),
    **dict.fromkeys((b"cuda_s", b"cuda_e", b"cuda_p", b"extern", b"collec", b"gpu_pm"), IGNORED),
}
X_EVENT = re.compile(rb'\s*"ph": "X",\s*"cat": "')
OTHER_PHASE = re.compile(rb'\s*"ph"\s*:\s*"[^XBE]"')  # metadata, flows, instants
CATEGORY = re.compile(rb'"cat"\s*:\s*"([^"]*)"')
# Driver calls that put work on the device; the others (event queries, synchronisation) are left out.
LAUNCHING = re.compile("Launch|Memcpy|Memset")
# Gloo's collective is a range on a thread of its own, not an operator; torch's operator only starts it.
GLOO = "gloo:"
RANGES_SHOWN = 8


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
        """Add to all columns, or, where a value does not fit, to none."""
        packed = {}
        for name, column in values.items():
            numbers = np.asarray(column, dtype=self._columns[name].typecode)
            if numbers.shape != (len(column),):
                raise ValueError(f"{name} is no number")
            packed[name] = numbers.tobytes()
        for name, text in packed.items():
            self._columns[name].frombytes(text)

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
        self._other_ranges: dict[str, None] = {}
        self._skipped: list[Skipped] = []
        self._unknown: Counter[str] = Counter()
        self._seen = 0
        self._prefix = 0
        self._takers: dict[str, Callable[[list[dict[str, Any]], Ints, Ints], None]] = {
            DEVICE: self._take_device,
            LAUNCH: self._take_launches,
            SPAN: self._take_spans,
            HOST_OP: self._take_host_ops,
        }

    def add(self, batch: Batch) -> None:
        self._seen += len(batch.events)
        groups: dict[str, list[int]] = {kind: [] for kind in (*self._takers, NAMELESS)}
        for index, kind in enumerate(self._kinds(batch)):
            if kind in groups:
                groups[kind].append(index)
        if not self._host_ops:
            del groups[HOST_OP]
        for kind, indices in groups.items():
            if indices:
                self._take(batch, indices, kind)

    def _take(self, batch: Batch, indices: list[int], kind: str) -> None:
        """Parse all at once, and where one of them is wrong, one by one to find it."""
        try:
            raw = [batch.events[index] for index in indices]
            if kind == NAMELESS:
                parse(raw)
                return
            events, starts, durations = decode(raw)
            if events:
                self._takers[kind](events, starts, durations)
        except FAULTS as fault:
            if len(indices) > 1:
                for index in indices:
                    self._take(batch, [index], kind)
                return
            (index,) = indices
            offset = batch.offset_of(index)
            if kind == DEVICE:
                told = f"a device event {reason(fault)}, so no share can be told; error"
                raise DamagedTrace(self._path, offset, told) from None
            self._skipped.append(Skipped(offset, batch.events[index][:160].decode(errors="replace")))

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
        if found is None:
            return NAMELESS
        kind = CATEGORIES.get(found.group(1)[:6].rstrip(b'"'))
        if kind is None:
            self._unknown[found.group(1)[:40].decode(errors="replace")] += 1
        return kind or IGNORED

    def _name_ids(self, names: list[KernelName]) -> list[int]:
        ids = self._ids
        try:
            return [ids[name] for name in names]
        except KeyError:
            pass  # a new one among them
        for name in set(names).difference(ids):
            if wrong := [part for part in name if not isinstance(part, str)]:
                raise ValueError(f"has a name that is no text: {wrong[0]!r}")
        return [ids.setdefault(name, len(ids)) for name in names]

    def _take_device(self, events: list[dict[str, Any]], starts: Ints, durations: Ints) -> None:
        args = [event.get("args") or {} for event in events]
        collectives = [a.get("Collective name", "") for a in args]
        names = [KernelName(e["name"], c) for e, c in zip(events, collectives, strict=True)]
        self._device.extend(
            start=starts,
            end=starts + durations,
            name=self._name_ids(names),
            stream=[as_stream(a.get("stream", e.get("tid"))) for a, e in zip(args, events, strict=True)],
            correlation=[a.get("correlation", NO_CORRELATION) for a in args],
            nbytes=[collective_bytes(a) if c else 0 for a, c in zip(args, collectives, strict=True)],
        )

    def _take_launches(self, events: list[dict[str, Any]], starts: Ints, _: Ints) -> None:
        puts_work = [bool(LAUNCHING.search(event["name"])) for event in events]
        events = list(compress(events, puts_work))
        self._launch.extend(
            correlation=[(event.get("args") or {}).get("correlation", NO_CORRELATION) for event in events],
            at=starts[puts_work],
            graph=["GraphLaunch" in event["name"] for event in events],
        )

    def _take_spans(self, events: list[dict[str, Any]], starts: Ints, durations: Ints) -> None:
        if self._host_ops:
            own = [event["name"].startswith(GLOO) for event in events]
            self._take_host_ops(list(compress(events, own)), starts[own], durations[own])
        modes = [self._rules.mode(event["name"]) for event in events]
        for event, mode, start, duration in zip(events, modes, starts.tolist(), durations.tolist(), strict=True):
            if mode is not None:
                self._spans.append(Span(start, start + duration, mode, event["name"]))
            elif len(self._other_ranges) < RANGES_SHOWN:
                self._other_ranges[event["name"]] = None

    def _take_host_ops(self, events: list[dict[str, Any]], starts: Ints, durations: Ints) -> None:
        self._host.extend(
            start=starts,
            dur=durations,
            name=self._name_ids([KernelName(event["name"]) for event in events]),
            thread=[as_integer(event.get("tid")) for event in events],
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
            unknown=dict(self._unknown),
            other_ranges=tuple(self._other_ranges),
            bytes_read=size,
            events_seen=self._seen,
        )
