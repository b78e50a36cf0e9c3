"""How many tokens a verify step brings, by the number of draft tokens."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Self

from k25serve.bench.plan.data_files import choose, from_file, packaged
from k25serve.drafters.checkpoint.errors import RegistryError
from k25serve.drafters.registry import load_registry
from k25serve.server.errors import UserError

REGISTRY = "registry:"
ONE_VALUE = re.compile(r"^(?P<length>\d+(\.\d+)?)@(?P<k>\d+)$")
OWN_ERROR = 0.05  # of a curve that a user measured on own traffic, unless the file says otherwise
PUBLISHED_ERROR = 0.15  # of a single published number


@dataclass(frozen=True, slots=True)
class AcceptCurve:
    """`lengths[j-1]`: accept length with j draft tokens. `error`: relative, one standard deviation."""

    name: str
    lengths: tuple[float, ...]
    error: float

    def __post_init__(self) -> None:
        previous = 1.0
        for k, length in enumerate(self.lengths, 1):
            if not previous <= length <= min(previous + 1, k + 1):
                raise UserError(
                    f"accept curve {self.name}: length {length} with {k} draft tokens after {previous}; "
                    "each draft token adds between 0 and 1"
                )
            previous = length

    @classmethod
    def geometric(cls, name: str, accept_length: float, k: int, error: float) -> Self:
        """The curve through one known point, each position accepted with the same chance, solved by halving."""
        if not 1 <= accept_length <= k + 1:
            raise UserError(f"accept length {accept_length} with {k} draft tokens: must lie in 1 to {k + 1}")
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _length(middle, k) < accept_length else (low, middle)
        return cls(name, tuple(_length(high, j) for j in range(1, max(k, 8) + 1)), error)

    def length(self, k: int) -> float:
        """Accept length with k draft tokens; beyond the known ones the last position's chance is kept."""
        if k == 0:
            return 1.0
        if k <= len(self.lengths):
            return self.lengths[k - 1]
        known = (1.0, *self.lengths)
        gains = _gains(known)
        ratio = gains[-1] / gains[-2] if len(gains) > 1 and gains[-2] > 0 else gains[-1]
        length, gain = known[-1], gains[-1]
        for _ in range(k - len(self.lengths)):
            gain *= min(ratio, 1.0)
            length += gain
        return length

    def shifted(self, factor: float) -> "AcceptCurve":
        """The curve if each draft token, given those before it, were accepted `factor` times as often."""
        known, lengths, reached = (1.0, *self.lengths), [1.0], 1.0
        for before, (low, high) in zip((1.0, *_gains(known)), pairwise(known), strict=False):
            chance = (high - low) / before if before > 0 else 0.0
            reached *= min(1.0, chance * factor)
            lengths.append(lengths[-1] + reached)
        return AcceptCurve(f"{self.name} x {factor:.2f}", tuple(lengths[1:]), self.error)


def load_accept(name: str) -> AcceptCurve:
    """A packaged curve, a file ({accept_length: [...], error: ...}), positions "0.83,0.60,...", one value "2.9@3", or
    "registry:REPOSITORY[:CLASS]", a drafter's published accept lengths.

    Positions are the share of steps in which that draft token is accepted (as engines' per-position counters give).
    """
    if name.startswith(REGISTRY):
        return _published(name.removeprefix(REGISTRY))
    if found := ONE_VALUE.match(name):
        return AcceptCurve.geometric(name, float(found["length"]), int(found["k"]), OWN_ERROR)
    if re.fullmatch(r"[\d.]+(,[\d.]+)+", name):
        lengths, total = [], 1.0
        for share in map(float, name.split(",")):
            total += share
            lengths.append(round(total, 6))
        return AcceptCurve(name, tuple(lengths), OWN_ERROR)
    path = Path(name)
    row: dict[str, Any] = (
        from_file("--accept", path) if path.is_file() else choose("--accept", name, packaged("acceptance"))
    )
    try:
        lengths = [float(value) for value in row["accept_length"]]
        error = float(row.get("error", OWN_ERROR))
    except (KeyError, TypeError, ValueError) as broken:
        raise UserError(
            f"--accept {name}: needs accept_length, a list of numbers by draft tokens ({broken!r})"
        ) from None
    return AcceptCurve(name, tuple(lengths), error)


def _published(name: str) -> AcceptCurve:
    """The mean over a drafter's published benchmarks with a chain of drafts; their spread is the error."""
    repository, _, prompt_class = name.partition(":")
    try:
        entry = load_registry().get(repository)
    except RegistryError as unknown:
        raise UserError(f"--accept {REGISTRY}{name}: {unknown}") from None
    rows = [
        (row.accept_length, int(steps))
        for row in entry.acceptance
        for steps, topk, _tokens in [row.setting.split(",")]
        if topk == "1" and prompt_class in ("", row.prompt_class)
    ]
    depths = {k for _, k in rows}
    if len(depths) != 1:
        classes = ", ".join(sorted({row.prompt_class for row in entry.acceptance})) or "none"
        raise UserError(
            f"--accept {REGISTRY}{name}: needs published accept lengths with topk 1 at one depth, found {len(rows)} at "
            f"{len(depths)} (classes: {classes})"
        )
    lengths = [length for length, _ in rows]
    error = max(OWN_ERROR, stdev(lengths) / fmean(lengths) if len(lengths) > 1 else PUBLISHED_ERROR)
    return AcceptCurve.geometric(f"{entry.repo}, published", fmean(lengths), depths.pop(), error)


def _gains(lengths: tuple[float, ...]) -> list[float]:
    return [after - before for before, after in pairwise(lengths)]


def _length(chance: float, k: int) -> float:
    return 1 + sum(chance**j for j in range(1, k + 1))
