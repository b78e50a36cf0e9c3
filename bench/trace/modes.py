"""Forward modes, and the names of the host ranges that mark them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Self

import yaml

from k25serve.bench.trace.errors import TraceError
from k25serve.bench.trace.events import Span

DECODE, VERIFY, UNKNOWN = "decode", "target_verify", "unknown"
DRAFT, DRAFT_EXTEND, EXTEND = "draft", "draft_extend", "extend"


@dataclass(frozen=True, slots=True)
class SpanRules:
    """Patterns of range names, in order, each with its forward mode. `own`: the user's, tried first, for decode."""

    rules: tuple[tuple[re.Pattern[str], str], ...]
    own: re.Pattern[str] | None = None

    @classmethod
    def load(cls, decode_span: str | None = None) -> Self:
        """The packaged rules; `decode_span` is one more pattern, for an engine that they don't know."""
        rows = yaml.safe_load(files("k25serve.bench.trace").joinpath("modes.yaml").read_text(encoding="utf-8"))
        rules = [(re.compile(row["match"]), str(row["mode"])) for row in rows]
        if decode_span is None:
            return cls(tuple(rules))
        try:
            own = re.compile(decode_span)
        except re.error as error:
            raise TraceError(f"--decode-span {decode_span!r}: not a regular expression ({error})") from None
        return cls(((own, DECODE), *rules), own)

    def finds_own(self, spans: Iterable[Span]) -> bool:
        """Whether the user's pattern, where there is one, marks any of these ranges."""
        return self.own is None or any(self.own.search(span.label) for span in spans)

    def mode(self, label: str) -> str | None:
        """The forward mode that a range's name tells, None for any other range."""
        return next((mode for pattern, mode in self.rules if pattern.search(label)), None)


def in_order(found: Iterable[str]) -> list[str]:
    """Modes in the order of a report: what makes tokens first."""
    order = (DECODE, VERIFY, DRAFT, DRAFT_EXTEND, "mixed", EXTEND, "idle", UNKNOWN)
    return sorted(found, key=lambda mode: (order.index(mode) if mode in order else len(order), mode))
