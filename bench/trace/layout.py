"""JSON text -> raw events. Kineto's own layout is split at event boundaries, any other at balanced braces.

Kineto (torch.profiler's writer) puts each event between the lines `  {` and `  },`. Splitting there is ten times as
fast as parsing, and an event with a broken name does not hurt its neighbours. A file that another program wrote again
(compact, other indentation) is split by its strings and braces instead.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from k25serve.bench.trace.errors import DamagedTrace, TraceError
from k25serve.bench.trace.stream import OnBytes, read_chunks

BOUNDARY = b"\n  },\n  {\n"
FIRST_EVENT = re.compile(rb'\s*  \{\n    "ph": "')
LAST_EVENT = re.compile(rb"\n  \}\s*\]")
EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
# A string (group 1: its closing quote, absent where the text ends before it), or a bracket.
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(")?|[{}\]]', re.DOTALL)
HEADER_AT_MOST = 64 << 20
EVENT_AT_MOST = 16 << 20
CUT = "incomplete rank: the file ends before its event list does; wait for the profiler to finish, or copy it again;"


@dataclass(frozen=True, slots=True)
class Batch:
    """Raw events, each the text between its braces. `offset` is the byte of the first one in the JSON text."""

    offset: int
    events: list[bytes]
    kineto: bool

    def offset_of(self, index: int) -> int:
        """Byte of event `index`; a few bytes off where the layout is not Kineto's."""
        return self.offset + sum(len(event) + len(BOUNDARY) for event in self.events[:index])


class EventStream:
    """The events of one trace file. `header` holds the other keys; it is whole once `batches` has ended."""

    def __init__(self, path: Path, on_bytes: OnBytes) -> None:
        self.path = path
        self.size = 0
        self.header: dict[str, Any] = {}
        self._chunks = read_chunks(path, on_bytes)
        self._rest = self._read_header()

    def batches(self) -> Iterator[Batch]:
        """Raw events in the order of the file. Raises DamagedTrace where it is cut."""
        buffer = self._rest
        while len(buffer) < 64 and (more := self._more()):
            buffer += more
        yield from self._kineto(buffer) if FIRST_EVENT.match(buffer) else self._generic(buffer)

    def _more(self) -> bytes:
        chunk = next(self._chunks, b"")
        self.size += len(chunk)
        return chunk

    def _read_header(self) -> bytes:
        buffer = self._more()
        if buffer.lstrip().startswith(b"["):  # Chrome's array form: nothing but events
            return buffer.lstrip()[1:]
        while (found := EVENTS_KEY.search(buffer)) is None:
            more = self._more()
            if not more or len(buffer) > HEADER_AT_MOST:
                raise TraceError(f'{self.path}: no "traceEvents" list; pass files that torch.profiler wrote')
            buffer += more
        try:
            self.header = orjson.loads(buffer[: found.end()] + b"]}")
        except orjson.JSONDecodeError as error:
            raise DamagedTrace(self.path, error.pos, f"the header is not JSON ({error.msg})") from None
        return buffer[found.end() :]

    def _kineto(self, buffer: bytes) -> Iterator[Batch]:
        buffer = buffer[buffer.index(b"{\n") + 2 :]
        while chunk := self._more():
            buffer += chunk
            end = buffer.rfind(BOUNDARY)
            if end < 0:
                self._check_event_size(buffer)
                continue
            yield Batch(self.size - len(buffer), buffer[:end].split(BOUNDARY), kineto=True)
            buffer = buffer[end + len(BOUNDARY) :]
        offset = self.size - len(buffer)
        last = LAST_EVENT.search(buffer)
        if last is None:
            raise DamagedTrace(self.path, self.size, CUT)
        yield Batch(offset, buffer[: last.start()].split(BOUNDARY), kineto=True)
        self._read_trailer(buffer[last.end() :])

    def _generic(self, buffer: bytes) -> Iterator[Batch]:
        while True:
            try:
                events, rest, ended = _split_balanced(buffer)
            except ValueError as error:
                raise DamagedTrace(self.path, self.size - len(buffer), f"between events {error}; error") from None
            if events:
                yield Batch(self.size - len(buffer), events, kineto=False)
            if ended:
                return self._read_trailer(rest)
            self._check_event_size(rest)
            more = self._more()
            if not more:
                raise DamagedTrace(self.path, self.size - len(rest), CUT)
            buffer = rest + more

    def _check_event_size(self, buffer: bytes) -> None:
        if len(buffer) > EVENT_AT_MOST:
            raise DamagedTrace(self.path, self.size - len(buffer), f"an event of over {EVENT_AT_MOST >> 20} MiB")

    def _read_trailer(self, text: bytes) -> None:
        if not self.header and not text.strip():
            return
        while chunk := self._more():
            text += chunk
            if len(text) > HEADER_AT_MOST:
                raise DamagedTrace(self.path, self.size, "what follows the event list is too long;")
        try:
            self.header |= orjson.loads(b'{"traceEvents":[]' + text)
        except orjson.JSONDecodeError:
            raise DamagedTrace(self.path, self.size, CUT) from None


def _split_balanced(text: bytes) -> tuple[list[bytes], bytes, bool]:
    """Whole events at the start of `text`, the rest, and whether the list's closing bracket was met.

    Raises ValueError where something else than a comma and white space lies between events.
    """
    events: list[bytes] = []
    depth = start = done = 0
    for token in TOKEN.finditer(text):
        first = text[token.start()]
        if first == ord('"'):
            if token.group(1) is None:
                break
        elif first == ord("{"):
            depth += 1
            if depth == 1:
                _only_commas(text[done : token.start()])
                start = token.end()
        elif first == ord("}"):
            depth -= 1
            if depth == 0:
                events.append(text[start : token.start()])
                done = token.end()
        elif depth == 0:
            _only_commas(text[done : token.start()])
            return events, text[token.end() :], True
    return events, text[done:], False


def _only_commas(between: bytes) -> None:
    if left := between.strip(b", \t\r\n"):
        raise ValueError(f"stands {left[:40]!r}, which is none")
