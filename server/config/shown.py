"""Values in messages: one line each, however large or odd the value is."""

import reprlib
from typing import Any

LINE_AT_MOST = 700

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100
_REPR.maxlevel = 2


def shown(value: Any) -> str:
    """`repr` of a value, cut where it is long."""
    return _REPR.repr(value)


def one_line(text: str) -> str:
    """`text` on one printable line. A long one loses its middle: the field stands first, the remedy last."""
    if len(text) > LINE_AT_MOST:
        half = LINE_AT_MOST // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
