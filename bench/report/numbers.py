"""How figures are shown: three or four digits that mean something."""


def number(value: float) -> str:
    """1536.2 -> 1,536; 82.51 -> 82.5; 2.884 -> 2.88; 0.03121 -> 0.0312."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 or value == 0 else f"{value:.3g}"


def optional(value: float | None) -> str:
    """A dash for what was not told."""
    return "-" if value is None else number(value)


def ranged(value: float, low: float | None, high: float | None) -> str:
    """With its interval, where there is one."""
    return number(value) if low is None or high is None else f"{number(value)} ({number(low)} to {number(high)})"


def percent(gain: float) -> str:
    """A ratio as a change: 1.12 -> +12.0 %."""
    return f"{(gain - 1) * 100:+.1f} %"
