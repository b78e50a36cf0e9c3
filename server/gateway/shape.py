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
        self._after_in_chunk = b""
        self._like: bytes | None = None

    def learn(self, frame: bytes) -> None:
        """Takes the shape of a frame that was parsed, carried tokens and passed unchanged; when it is needed first."""
        self._like = frame

    def _take_shape(self) -> None:
        frame, self._like = self._like or b"", None
        for key in _TEXT_KEYS:
            at = frame.find(key)
            if at < 0:
                continue
            start = at + len(key)
            stop = frame.find(b'"', start)
            if _is_plain(frame[start:stop]):
                self._before, self._after = frame[:start], frame[stop:]
                self._after_in_chunk = self._after + b"\r\n"
                return

    def fits(self, data: bytes) -> bool:
        """Whether `data` is exactly one frame of the shape."""
        if self._like is not None:
            self._take_shape()
        before, after = self._before, self._after
        return (
            data.startswith(before)
            and data.endswith(after)
            and before != b""
            and _is_plain(data[len(before) : -len(after)])
        )

    def fits_chunk(self, read: bytes) -> bool:
        """Whether `read`, in HTTP's framing, is exactly one chunk, and that exactly one frame of the shape."""
        if self._like is not None:
            self._take_shape()
        before, after = self._before, self._after_in_chunk
        start = read.find(b"\r\n", 1, 10) + 2
        return (
            read.startswith(before, start)
            and read.endswith(after)
            and before != b""
            and read.startswith(b"%x\r\n" % (len(read) - start - 2))
            and _is_plain(read[start + len(before) : -len(after)])
        )


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
