"""Recognises a frame that differs from an earlier one in its text alone, without parsing it. Pure."""

_TEXT_KEYS = (b'"content":"', b'"reasoning_content":"', b'"reasoning":"', b'"text":"')
_NOT_PLAIN = b'"\\<' + bytes(range(32))
"""What ends or escapes a JSON string, what it can't hold, and the first byte of Kimi's tool-call markers."""
_ID_LIKE = b"functions_"
"""At the start of a string it may be a tool call's id; see dialect/rules.py."""


class FrameShape:
    """The bytes around one frame's text.

    In a long answer nearly every frame has the shape of the one before. Where that one was parsed, carried tokens and
    passed unchanged, so does a frame with the same bytes around another non-empty text: it parses to the same document
    but for the text, and no rule looks at plain text.
    """

    def __init__(self) -> None:
        self._before = b""
        self._after = b""
        self._like: bytes | None = None

    def learn(self, frame: bytes) -> None:
        """Takes the shape of a frame that was parsed, carried tokens and passed unchanged; when it is needed first."""
        self._like = frame

    def _take_shape(self, frame: bytes) -> None:
        for key in _TEXT_KEYS:
            at = frame.find(key)
            if at < 0:
                continue
            start = at + len(key)
            stop = frame.find(b'"', start)
            if self._is_plain(frame[start:stop]):
                self._before, self._after = frame[:start], frame[stop:]
                return

    def fits(self, data: bytes, start: int = 0, stop: int | None = None) -> bool:
        """Whether `data[start:stop]` is exactly one frame of the shape."""
        if self._like is not None:
            like, self._like = self._like, None
            self._take_shape(like)
        before, after = self._before, self._after
        stop = len(data) if stop is None else stop
        return (
            data.startswith(before, start)
            and data.endswith(after, start, stop)
            and before != b""
            and self._is_plain(data[start + len(before) : stop - len(after)])
        )

    @staticmethod
    def _is_plain(text: bytes) -> bool:
        if not text or len(text.translate(None, _NOT_PLAIN)) != len(text) or text.startswith(_ID_LIKE):
            return False
        return text.isascii() or _is_utf8(text)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
