"""A stream on its way to a client, with what it says told to an answer that is put together beside it. Pure."""

from collections.abc import Callable, Sequence

import orjson

from k25serve.server.gateway.conversations.answer import AnswerParts
from k25serve.server.gateway.dialect.answer import StreamRewriter
from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.stream import ONE_OF_TOKENS, StreamFilter
from k25serve.server.gateway.usage import Reading, frame_data, read_frame


class RecordedFilter(StreamFilter):
    """Forwards what a StreamFilter does. A frame that is known by its bytes alone takes the same way, and is parsed."""

    def __init__(self, strip: Strip, rewriter: StreamRewriter, answer: AnswerParts) -> None:
        self._answer = answer

        def read(frame: bytes) -> Reading:
            reading = read_frame(frame, answer.frame)
            if reading.unreadable:
                answer.spoil()
            return reading

        super().__init__(strip, rewriter, read)

    def feed(self, data: bytes) -> tuple[bytes, Sequence[Reading]]:
        out, readings = super().feed(data)
        if readings is ONE_OF_TOKENS:
            self._tell(data)
        return out, readings

    def telling(self, through: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        """`through`, which takes chunks that `passes` has let by, in HTTP's framing."""

        def told(read: bytes) -> bool:
            if not through(read):
                return False
            self._tell(read[read.index(b"\r\n") + 2 :])
            return True

        return told

    def _tell(self, frame: bytes) -> None:
        self._answer.frame(orjson.loads(frame_data(frame)))
