"""How figures are shown: three or four digits that mean something."""

import re

NUMERIC = re.compile(r"-|[-+]?\d[\d,.]*(e[-+]?\d+)?\s?%?( \(.*\))?")


def number(value: float) -> str:
    """1536.2 -> 1,536; 82.51 -> 82.5; 2.884 -> 2.88; 0.03121 -> 0.0312; whole numbers as such."""
    size = abs(value)
    if size >= 1000 or value == round(value):
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def optional(value: float | None) -> str:
    """A dash for what was not told."""
    return "-" if value is None else number(value)


def ranged(value: float, low: float | None, high: float | None) -> str:
    """With its interval, where there is one."""
    return number(value) if low is None or high is None else f"{number(value)} ({number(low)} to {number(high)})"


def percent(gain: float) -> str:
    """A ratio as a change: 1.12 -> +12.0 %."""
    return f"{(gain - 1) * 100:+.1f} %"


def is_numeric(text: str) -> bool:
    """Whether a cell holds a figure, with its interval or without, and not words."""
    return NUMERIC.fullmatch(text) is not None
