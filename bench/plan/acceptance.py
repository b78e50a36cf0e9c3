"""How many tokens a verify step brings, by the number of draft tokens."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Self

from pydantic import Field

from k25serve.bench.plan.bounds import K_AT_MOST
from k25serve.bench.plan.data_files import Part, checked, choose, from_file, is_file, packaged
from k25serve.drafters.checkpoint.errors import RegistryError
from k25serve.drafters.registry import load_registry
from k25serve.server.errors import UserError

REGISTRY = "registry:"
OWN_ERROR = 0.05  # of a curve that a user measured on own traffic, unless the file says otherwise
PUBLISHED_ERROR = 0.15  # of a single published number
# A later draft token is accepted only after the one before it. Lengths that were measured in a run for each k, as the
# golden ones were, may say otherwise by their noise.
RISE_AT_MOST = 0.05


class CurveError(ValueError):
    """Numbers that no accept curve has."""


class AcceptFile(Part):
    """A file of `--accept`: the accept length with 1, 2, ... draft tokens; the rest is for its readers."""

    accept_length: Annotated[tuple[float, ...], Field(min_length=1, max_length=K_AT_MOST)]
    error: float = Field(default=OWN_ERROR, ge=0, le=1)
    source: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class AcceptCurve:
    """`lengths[j-1]`: accept length with j draft tokens. `error`: relative, one standard deviation."""

    name: str
    lengths: tuple[float, ...]
    error: float

    def __post_init__(self) -> None:
        previous, gain = 1.0, 1.0
        for k, length in enumerate(self.lengths, 1):
            if not previous <= length <= min(previous + 1, k + 1):
                raise CurveError(
                    f"length {length} with {k} draft tokens after {previous}; each draft token adds between 0 and 1"
                )
            if length - previous > gain + RISE_AT_MOST:
                raise CurveError(
                    f"draft token {k} adds {length - previous:.3f}, the one before it {gain:.3f}; a later one is "
                    "accepted only after those before it, so it adds no more than they do"
                )
            previous, gain = length, length - previous

    @classmethod
    def geometric(cls, name: str, accept_length: float, k: int, error: float) -> Self:
        """The curve through one known point, each position accepted with the same chance, solved by halving."""
        if not 1 <= accept_length <= k + 1:
            raise CurveError(f"accept length {accept_length} with {k} draft tokens: must lie in 1 to {k + 1}")
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


def load_accept(name: str, option: str = "--accept") -> AcceptCurve:
    """A packaged curve, a file ({accept_length: [...], error: ...}), positions "0.83,0.60,...", one value "2.9@3", or
    "registry:REPOSITORY[:CLASS]", a drafter's published accept lengths.

    Positions are the share of steps in which that draft token is accepted (as engines' per-position counters give).
    Raises UserError, which begins with `option` and `name`.
    """
    place = f"{option} {name}"
    try:
        if name.startswith(REGISTRY):
            return _published(name.removeprefix(REGISTRY))
        path = Path(name)
        if is_file(path):
            return _from_row(name, place, from_file(option, path))
        if "@" in name:
            return _one_value(name)
        if "," in name or _is_number(name):
            return _shares(name)
    except CurveError as broken:
        raise UserError(f"{place}: {broken}") from None
    return _from_row(name, place, choose(option, name, packaged("acceptance")))


def _from_row(name: str, place: str, row: Any) -> AcceptCurve:
    found = checked(place, AcceptFile, row)
    return AcceptCurve(name, found.accept_length, found.error)


def _one_value(name: str) -> AcceptCurve:
    length, _, k = name.partition("@")
    if not _is_number(length) or not k.isdecimal() or not 1 <= int(k[:9]) <= K_AT_MOST:
        raise CurveError(f"write an accept length and 1 to {K_AT_MOST} draft tokens, like 2.9@3")
    return AcceptCurve.geometric(name, float(length), int(k), OWN_ERROR)


def _shares(name: str) -> AcceptCurve:
    parts = name.split(",")
    if len(parts) > K_AT_MOST:
        raise CurveError(f"{len(parts)} positions; at most {K_AT_MOST}")
    lengths, before = [1.0], 1.0
    for position, part in enumerate(parts, 1):
        if not _is_number(part) or not 0 <= float(part) <= 1:
            raise CurveError(f"position {position} is {part!r}: must be a share between 0 and 1, like 0.83,0.60,0.45")
        if float(part) > before:
            raise CurveError(
                f"position {position} is {part}, above {before:g} before it; shares fall or stay, since a draft token "
                "is accepted only after those before it"
            )
        before = float(part)
        lengths.append(round(lengths[-1] + before, 6))
    return AcceptCurve(name, tuple(lengths[1:]), OWN_ERROR)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _published(name: str) -> AcceptCurve:
    """The mean over a drafter's published benchmarks with a chain of drafts; their spread is the error."""
    repository, _, prompt_class = name.partition(":")
    try:
        entry = load_registry().get(repository)
    except RegistryError as unknown:
        raise CurveError(str(unknown)) from None
    rows = [
        (row.accept_length, int(steps))
        for row in entry.acceptance
        for steps, topk, _tokens in [row.setting.split(",")]
        if topk == "1" and prompt_class in ("", row.prompt_class)
    ]
    depths = {k for _, k in rows}
    if len(depths) != 1:
        classes = ", ".join(sorted({row.prompt_class for row in entry.acceptance})) or "none"
        raise CurveError(
            f"needs published accept lengths with topk 1 at one depth, found {len(rows)} at {len(depths)} "
            f"(classes: {classes})"
        )
    lengths = [length for length, _ in rows]
    error = max(OWN_ERROR, stdev(lengths) / fmean(lengths) if len(lengths) > 1 else PUBLISHED_ERROR)
    return AcceptCurve.geometric(f"{entry.repo}, published", fmean(lengths), depths.pop(), error)


def _gains(lengths: tuple[float, ...]) -> list[float]:
    return [after - before for before, after in pairwise(lengths)]


def _length(chance: float, k: int) -> float:
    return 1 + sum(chance**j for j in range(1, k + 1))
