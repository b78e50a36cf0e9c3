"""What a decode step costs, by batch size, context length and draft steps."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

KEY = "step_costs"
"""Where a file of SGLang's --speculative-adaptive-config holds the table; SGLang itself ignores the key."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Chance = Annotated[float, Field(ge=0, le=1)]


class CostError(ValueError):
    """A cost table can't be used: one line with the field, the value and the remedy."""


class StepCosts(BaseModel):
    """Seconds of a whole step (draft, verification, draft extension) at the points of a grid.

    seconds: [batches][contexts][steps]; `steps` begins with 0, which is a step of a server without a drafter.
    draft_extend_seconds: what it adds to such a step to keep the drafter's cache up to date.
    accept_chances: [j] is the chance of draft token j + 1 given those before it, believed until more is known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: str
    batches: tuple[Annotated[int, Field(ge=1)], ...]
    contexts: tuple[Annotated[int, Field(ge=0)], ...]
    steps: tuple[Annotated[int, Field(ge=0)], ...]
    seconds: tuple[tuple[tuple[Seconds, ...], ...], ...]
    draft_extend_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    accept_chances: tuple[Chance, ...]

    @model_validator(mode="after")
    def _grid(self) -> Self:
        for name in ("batches", "contexts", "steps"):
            points = getattr(self, name)
            if not points or any(low >= high for low, high in pairwise(points)):
                raise ValueError(f"{name} {list(points)} must be rising, and not empty")
        if self.steps[0] != 0 or len(self.steps) < 2:
            raise ValueError(f"steps {list(self.steps)} must begin with 0, and go on")
        if len(self.accept_chances) < self.steps[-1]:
            raise ValueError(f"accept_chances has {len(self.accept_chances)} values, needs {self.steps[-1]}")
        shape = {(len(self.seconds), len(row), len(cell)) for row in self.seconds for cell in row}
        expected = (len(self.batches), len(self.contexts), len(self.steps))
        if shape != {expected}:
            raise ValueError(f"seconds must be {' x '.join(map(str, expected))} numbers: batches, contexts, steps")
        return self

    def at(self, batch: int, context: float) -> dict[int, float]:
        """steps -> seconds, linear between the points of the grid, as at its edge beyond it."""
        low_batch, high_batch, b = _between(self.batches, batch)
        low_context, high_context, c = _between(self.contexts, context)
        corners = (
            ((1 - b) * (1 - c), self.seconds[low_batch][low_context]),
            ((1 - b) * c, self.seconds[low_batch][high_context]),
            (b * (1 - c), self.seconds[high_batch][low_context]),
            (b * c, self.seconds[high_batch][high_context]),
        )
        return {k: sum(weight * cell[i] for weight, cell in corners) for i, k in enumerate(self.steps)}


def read_costs(path: Path) -> StepCosts:
    """The table of a file that `k25serve bench plan adaptive` wrote. Raises CostError."""
    make = f"make it with: k25serve bench plan adaptive {path}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CostError(f"{path}: can't be read as JSON ({error}); {make}") from None
    if not isinstance(content, dict) or KEY not in content:
        raise CostError(f"{path}: has no {KEY}; {make}")
    try:
        # Through JSON, since strict Python input would refuse lists.
        costs = StepCosts.model_validate_json(json.dumps(content[KEY]))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in (KEY, *first["loc"]))
        raise CostError(f"{path}: {field}: {first['msg']}; {make}") from None
    for size, slot in content.items():
        arms = slot.get("candidate_steps") if size.isdigit() and isinstance(slot, dict) else []
        if not isinstance(arms, list) or not set(arms) <= set(costs.steps):
            known = list(costs.steps)
            raise CostError(f"{path}: {size}.candidate_steps {arms}: the table has costs of {known} only; {make}")
    return costs


def _between(points: Sequence[int], value: float) -> tuple[int, int, float]:
    """Indices of the points around a value, and how far it is from the first to the second."""
    high = bisect_right(points, value)
    if high == 0:
        return 0, 0, 0.0
    if high == len(points):
        return high - 1, high - 1, 0.0
    return high - 1, high, (value - points[high - 1]) / (points[high] - points[high - 1])
