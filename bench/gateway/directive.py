"""How a benchmark request tells the paced engine what to do: in its text, the one field every gateway leaves alone.
Pure."""

import re
from dataclasses import asdict, dataclass

_FOUND = re.compile(rb"#bench ([^#]*)#")
_WORDS = "the graph of a kernel is one step over eight lanes and back "


@dataclass(frozen=True, slots=True)
class Directive:
    """What one request asks of the engine.

    `first`: seconds of silence before the answer; `pace`: seconds between chunks; `size`: bytes of text in an answer
    without streaming; `status`: other than 200 is an error answer; `tag`: the engine keeps a record under this name.
    """

    chunks: int = 1
    pace: float = 0.0
    first: float = 0.0
    size: int = 1000
    status: int = 200
    tag: str = ""

    def text(self, length: int = 0) -> str:
        """As the text of a message, filled up with words to `length` characters."""
        fields = " ".join(f"{name}={value}" for name, value in asdict(self).items() if value != "")
        head = f"#bench {fields}# "
        # Words, not one long word: some gateways count tokens, in time quadratic in a word's length.
        missing = max(0, length - len(head))
        return head + (_WORDS * (missing // len(_WORDS) + 1))[:missing]


def find(body: bytes) -> Directive:
    """The directive in a request's body; a default one where there is none, as in a gateway's own probes."""
    found = _FOUND.search(body)
    if found is None:
        return Directive()
    given = dict(pair.split("=", 1) for pair in found[1].decode().split())
    return Directive(
        chunks=int(given["chunks"]),
        pace=float(given["pace"]),
        first=float(given["first"]),
        size=int(given["size"]),
        status=int(given["status"]),
        tag=given.get("tag", ""),
    )
