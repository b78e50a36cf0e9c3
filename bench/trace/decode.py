"""The text of raw events -> parsed events with their times, or what is wrong with them."""

import re
from itertools import compress
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from k25serve.bench.trace.events import Ints

TIME = re.compile(rb'"ts"\s*:\s*(\d+)(?:\.(\d+))?(?![\d.eE])')
# A time stamp or length beyond this is no time: 2^62 ns are 146 years.
US_AT_MOST = float((1 << 62) // 1000)
# What an event that lacks a field, or has one of another type, raises where it is used.
FAULTS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
# Above this many microseconds a double no longer holds whole nanoseconds, so the digits are read instead.
EXACT_US = float(1 << 43)
INT32 = 2**31 - 1
ELEMENT_BYTES = {
    **dict.fromkeys(("BFloat16", "Half", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
}


def parse(raw: list[bytes]) -> list[dict[str, Any]]:
    """Events from the texts between their braces."""
    events: list[dict[str, Any]] = orjson.loads(b"[{" + b"},{".join(raw) + b"}]")
    return events


def decode(raw: list[bytes]) -> tuple[list[dict[str, Any]], Ints, Ints]:
    """Parsed events that last, and their starts and durations in ns. Raises one of FAULTS where one can't be read."""
    events = parse(raw)
    lasts = [event["ph"] == "X" for event in events]
    if not all(lasts):
        if any(event["ph"] in ("B", "E") for event in events):
            raise ValueError('is in two parts (ph B and E); only whole ones (ph "X") are read')
        events, raw = list(compress(events, lasts)), list(compress(raw, lasts))
    times = np.array([event["ts"] for event in events], dtype=np.float64)
    lengths = np.array([event["dur"] for event in events], dtype=np.float64)
    for name, column in (("ts", times), ("dur", lengths)):
        if column.ndim != 1 or not (np.abs(column) < US_AT_MOST).all():
            raise ValueError(f"has a {name} that is no time")
    if (lengths < 0).any():
        raise ValueError(f"has a negative dur, {lengths.min():g}")
    exact = len(times) and times.max() >= EXACT_US
    starts = np.array([_exact_ns(text) for text in raw], dtype=np.int64) if exact else _ns(times)
    return events, starts, _ns(lengths)


def _ns(us: NDArray[np.float64]) -> Ints:
    return np.rint(us * 1000).astype(np.int64)


def reason(fault: Exception) -> str:
    """What is wrong with an event, to follow "a device event"."""
    if isinstance(fault, orjson.JSONDecodeError):
        return f"is not JSON ({fault.msg})"
    if isinstance(fault, KeyError):
        return f"has no {fault.args[0]}"
    text = str(fault)
    return text if text.startswith(("has ", "is ")) else f"has a field of the wrong kind ({text})"


def _exact_ns(event: bytes) -> int:
    found = TIME.search(event)
    if found is None:
        raise ValueError("has a ts that is no time")
    return int(found.group(1)) * 1000 + int((found.group(2) or b"0")[:3].ljust(3, b"0"))


def as_integer(value: object) -> int:
    """A whole number, -1 for anything else."""
    return value if isinstance(value, int) else -1


def as_stream(value: object) -> int:
    """A stream's number; of a larger one (a thread's id, where there is none) the low bits, which tell it apart."""
    if isinstance(value, int):
        return value if -INT32 <= value <= INT32 else value & INT32
    return -1


def collective_bytes(args: dict[str, Any]) -> int:
    """Bytes that a rank puts into a collective, from what torch records beside NCCL kernels; 2 GiB stands for more."""
    told = int(args.get("In msg nelems", 0)) * ELEMENT_BYTES.get(str(args.get("dtype", "")), 0)
    return min(told, INT32)
