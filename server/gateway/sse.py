"""Cuts a byte stream into server-sent events. Knows bytes only."""


class FrameSplitter:
    """Finds where frames end, whatever the reads look like.

    A frame ends with a blank line: a line feed, an optional carriage return, a line feed. Frames come out as the exact
    bytes that went in, blank line included, so joining them gives the stream back. Lone carriage returns as line ends,
    which the standard also allows, are not looked for: no engine sends them.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def open(self) -> bool:
        """A frame has begun and not ended."""
        return bool(self._held)

    @property
    def held(self) -> bytes:
        """The open frame's bytes so far."""
        return bytes(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Takes one read and returns the frames that it completes."""
        if not self._held:
            frames, end = _split(data, 0)
            self._held += data[end:]
            return frames
        # A blank line is at most three bytes long, so two of them may have been seen already.
        start = max(0, len(self._held) - 2)
        self._held += data
        frames, end = _split(self._held, start)
        if end:
            del self._held[:end]
        return frames


def _split(data: bytes | bytearray, search_from: int) -> tuple[list[bytes], int]:
    """Complete frames of `data`, and where the last of them ends."""
    frames: list[bytes] = []
    begin = 0
    lf = data.find(b"\n\n", search_from)
    crlf = data.find(b"\n\r\n", search_from)
    while lf >= 0 or crlf >= 0:
        end = lf + 2 if crlf < 0 or 0 <= lf < crlf else crlf + 3
        frames.append(bytes(data[begin:end]))
        begin = end
        if 0 <= lf < begin:
            lf = data.find(b"\n\n", begin)
        if 0 <= crlf < begin:
            crlf = data.find(b"\n\r\n", begin)
    return frames, begin
