"""Forward modes, and the names of the host ranges that mark them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Self

import yaml

from k25serve.bench.trace.errors import TraceError

DECODE, VERIFY, UNKNOWN = "decode", "target_verify", "unknown"
DRAFT, DRAFT_EXTEND, EXTEND = "draft", "draft_extend", "extend"


@dataclass(frozen=True, slots=True)
class SpanRules:
    """Patterns of range names, in order, each with its forward mode."""

    rules: tuple[tuple[re.Pattern[str], str], ...]

    @classmethod
    def load(cls, decode_span: str | None = None) -> Self:
        """The packaged rules; `decode_span` is one more pattern, tried first, for an engine that they don't know."""
        rows = yaml.safe_load(files("k25serve.bench.trace").joinpath("modes.yaml").read_text(encoding="utf-8"))
        rules = [(re.compile(row["match"]), str(row["mode"])) for row in rows]
        if decode_span is not None:
            try:
                rules.insert(0, (re.compile(decode_span), DECODE))
            except re.error as error:
                raise TraceError(f"--decode-span {decode_span!r}: not a regular expression ({error})") from None
        return cls(tuple(rules))

    def mode(self, label: str) -> str | None:
        """The forward mode that a range's name tells, None for any other range."""
        return next((mode for pattern, mode in self.rules if pattern.search(label)), None)


def in_order(found: Iterable[str]) -> list[str]:
    """Modes in the order of a report: what makes tokens first."""
    order = (DECODE, VERIFY, DRAFT, DRAFT_EXTEND, "mixed", EXTEND, "idle", UNKNOWN)
    return sorted(found, key=lambda mode: (order.index(mode) if mode in order else len(order), mode))
