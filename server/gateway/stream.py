"""A stream's bytes on their way through: cut into frames, read, stripped. Pure."""

from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.sse import FrameSplitter
from k25serve.server.gateway.strip import strip_frame
from k25serve.server.gateway.usage import Reading, read_frame


class StreamFilter:
    """Passes whole frames on at once and holds back only the open one.

    No client can use half a frame, and one that got half a frame before the engine died would fail on broken JSON
    before it reached the error that follows.
    """

    def __init__(self, strip: Strip) -> None:
        self._strip = strip
        self._splitter = FrameSplitter()
        self.complete = False
        """The stream said how it ended: with [DONE] or with an error of the engine's own."""

    def feed(self, data: bytes) -> tuple[bytes, list[Reading]]:
        """Takes one read; returns the bytes to forward now and what its frames say."""
        frames = self._splitter.feed(data)
        readings = [self._read(frame) for frame in frames]
        if self._strip:
            frames = [strip_frame(frame, reading, self._strip) for frame, reading in zip(frames, readings, strict=True)]
        return b"".join(frames), readings

    def finish(self) -> tuple[bytes, list[Reading]]:
        """The open frame's bytes at the end of the stream, and what they say.

        After [DONE] they pass as they are. Before it, an open frame whose JSON is whole lacks only its blank line and
        gets it; one that was cut inside its JSON is dropped.
        """
        held = self._splitter.held
        if not held:
            return b"", []
        reading = self._read(held)
        frame = strip_frame(held, reading, self._strip)
        if self.complete or not frame:
            return frame, [reading]
        if reading.unreadable or reading.empty:
            return b"", [reading]
        return frame.rstrip(b"\r\n") + b"\n\n", [reading]

    def _read(self, frame: bytes) -> Reading:
        reading = read_frame(frame)
        if reading.done or reading.error:
            self.complete = True
        return reading
