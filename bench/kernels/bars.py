"""The bars, as data, and what a measurement says about each."""

from dataclasses import dataclass
from typing import Any

from k25serve.bench.kernels.contenders import EXTEND, OURS, VERIFY_MLA
from k25serve.bench.kernels.shapes import HEADS

# Factors that a prototype reached against SGLang's extend kernel on an H200.
FACTORS = {(1, 1024): 12.0, (1, 32768): 165.0, (16, 32768): 18.0}
FRACTION, FRACTION_SHAPES = 0.50, ((4, 131072), (16, 32768), (64, 8192))
SHORTEST, SHORTEST_US = (1, 1024), 17.0


@dataclass(frozen=True)
class Bar:
    """A bar and what was measured."""

    name: str
    wanted: float
    found: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted


def bars_of(data: dict[str, Any]) -> list[Bar]:
    """Compare the `data` of a result with every bar that it has the contenders for; they were set for HEADS heads."""
    bars: list[Bar] = []
    if data["heads"] != HEADS:
        return bars
    for row in data["shapes"]:
        shape, times = (row["batch"], row["prefix"]), row["contenders"]
        name, ours = f"{shape[0]} x {shape[1] // 1024}k", times[OURS]["us"]
        if EXTEND in times and shape in FACTORS:
            bars.append(Bar(f"{name}: times faster than {EXTEND}", FACTORS[shape], times[EXTEND]["us"] / ours))
        if VERIFY_MLA in times:
            wanted = 1.3 if shape[1] < 8192 else 2.5
            bars.append(Bar(f"{name}: times faster than {VERIFY_MLA}", wanted, times[VERIFY_MLA]["us"] / ours))
        if shape in FRACTION_SHAPES:
            bars.append(Bar(f"{name}: fraction of copy bandwidth", FRACTION, row["roof_us"] / ours))
        if shape == SHORTEST:
            bars.append(Bar(f"{name}: us", SHORTEST_US, ours, at_most=True))
    return bars
