"""From frames to the bytes of each write, with the faults that were asked for. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.engine_sim.sglang import DONE, Frame, error_body


@dataclass(frozen=True, slots=True)
class Write:
    """`data` goes out `seconds` after what came before it."""

    data: bytes
    seconds: float = 0.0


class HangUp:
    """The connection is closed without ending the HTTP message."""


class Stall:
    """Nothing more is sent and the connection stays open."""


Action = Write | HangUp | Stall


def stream_actions(frames: Iterator[Frame], options: SimOptions) -> Iterator[Action]:
    """What a stream of `frames` does, one action after the other; the end of the iterator ends the message."""
    if not options.one_write:
        yield from _cut(_framed(frames, options), options.write_bytes)
        return
    whole = b""
    for action in _framed(frames, options):
        if not isinstance(action, Write):
            yield Write(whole)
            yield action
            return
        whole += action.data
    yield Write(whole)


def _framed(frames: Iterator[Frame], options: SimOptions) -> Iterator[Action]:
    end = b"\r\n\r\n" if options.crlf else b"\n\n"
    for i, frame in enumerate(frames):
        data = b"data: " + frame.data + end
        due = i == options.fault_after
        if due and options.fault == "die_mid_frame":
            yield Write(data[: len(data) // 2], frame.seconds)
            yield HangUp()
            return
        if due and options.fault == "die_between_frames":
            yield HangUp()
            return
        if due and options.fault == "stall":
            yield Stall()
            return
        if due and options.fault == "end_early":
            return
        if due and options.fault == "error_frame":
            error = error_body("Generation aborted.", "INTERNAL_SERVER_ERROR", 500)
            yield Write(b"data: " + orjson.dumps({"error": error}) + end, frame.seconds)
            yield Write(b"data: " + DONE.data + end)
            return
        if frame is DONE and options.fault == "no_done":
            return
        yield Write(data, frame.seconds)
    # `fault_after` lies beyond the last frame.
    if options.fault == "die_between_frames":
        yield HangUp()
    if options.fault == "stall":
        yield Stall()


def _cut(actions: Iterator[Action], size: int) -> Iterator[Action]:
    """The same bytes in writes of at most `size`; 0 leaves them as they are."""
    for action in actions:
        if not size or not isinstance(action, Write):
            yield action
            continue
        for start in range(0, len(action.data), size):
            yield Write(action.data[start : start + size], action.seconds if start == 0 else 0.0)
