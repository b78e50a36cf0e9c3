"""A stream's bytes on their way through: cut into frames, read, stripped, rewritten. Pure."""

from collections.abc import Callable, Sequence

from k25serve.server.gateway.dialect.answer import StreamRewriter
from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.shape import FrameShape
from k25serve.server.gateway.sse import FrameSplitter
from k25serve.server.gateway.strip import strip_frame
from k25serve.server.gateway.usage import TOKENS, Reading, read_frame

ONE_OF_TOKENS = (TOKENS,)
"""What a frame says that was known by its bytes alone."""


class StreamFilter:
    """Passes whole frames on at once and holds back only the open one.

    No client can use half a frame, and one that got half a frame before the engine died would fail on broken JSON
    before it reached the error that follows.
    """

    def __init__(
        self,
        strip: Strip,
        rewriter: StreamRewriter | None = None,
        read: Callable[[bytes], Reading] = read_frame,
    ) -> None:
        self._strip = strip
        self._read_frame = read
        self._rewriter = rewriter
        self._splitter = FrameSplitter()
        self._shape = FrameShape()
        # Nothing that came before matters to the next frame.
        self._quiet = True
        self.complete = False
        """The stream said how it ended: with [DONE] or with an error of the engine's own."""

    def passes(self, read: bytes) -> bool:
        """Whether `read`, in HTTP's framing, is one chunk that is one frame, with tokens, that goes on unchanged."""
        return self._quiet and self._shape.fits_chunk(read)

    def feed(self, data: bytes) -> tuple[bytes, Sequence[Reading]]:
        """Takes one read; returns the bytes to forward now and what its frames say."""
        rewriter = self._rewriter
        if self._quiet and self._shape.fits(data):
            return data, ONE_OF_TOKENS
        frames = self._splitter.feed(data)
        readings = [self._read(frame) for frame in frames]
        if self._strip:
            frames = [strip_frame(frame, reading, self._strip) for frame, reading in zip(frames, readings, strict=True)]
        if rewriter is not None:
            frames = [rewriter.frame(frame, reading) for frame, reading in zip(frames, readings, strict=True)]
        out = b"".join(frames)
        self._quiet = not self._splitter.open and (rewriter is None or not rewriter.alert)
        if readings == [TOKENS] and out == data:
            self._shape.learn(data)
        return out, readings

    def finish(self, last: bytes = b"") -> tuple[bytes, Sequence[Reading]]:
        """Takes the `last` read; returns the bytes that are left to forward, the open frame's too, and what they say.

        After [DONE] they pass as they are. Before it, an open frame whose JSON is whole lacks only its blank line and
        gets it; one that was cut inside its JSON is dropped.
        """
        out, readings = self.feed(last) if last else (b"", ())
        held = self._splitter.held
        rewriter = self._rewriter
        if not held:
            return out if rewriter is None else out + rewriter.flush(), readings
        reading = self._read(held)
        frame = strip_frame(held, reading, self._strip)
        if frame and not self.complete:
            frame = b"" if reading.unreadable or reading.empty else frame.rstrip(b"\r\n") + b"\n\n"
        if rewriter is not None:
            frame = rewriter.frame(frame, reading) + rewriter.flush()
        return out + frame, [*readings, reading]

    def _read(self, frame: bytes) -> Reading:
        reading = self._read_frame(frame)
        if reading.done or reading.error:
            self.complete = True
        return reading
