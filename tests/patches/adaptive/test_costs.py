"""The cost table: interpolation against a naive form, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from k25serve.patches.adaptive import CostError, StepCosts, read_costs

TABLE: dict[str, Any] = {
    "source": "test",
    "batches": [1, 4],
    "contexts": [0, 1000, 3000],
    "steps": [0, 2],
    "seconds": [[[0.01, 0.02], [0.03, 0.05], [0.04, 0.09]], [[0.02, 0.04], [0.05, 0.09], [0.10, 0.11]]],
    "draft_extend_seconds": 0.001,
    "accept_chances": [0.8, 0.7],
}


def table(**changes: Any) -> StepCosts:
    return StepCosts.model_validate_json(json.dumps(TABLE | changes))


def naive(batch: float, context: float, arm: int) -> float:
    """Linear along the context at both batch sizes, then along the batch; clamped to the grid."""
    batch, context = min(max(batch, 1), 4), min(max(context, 0), 3000)

    def along(row: list[list[float]]) -> float:
        if context <= 1000:
            return row[0][arm] + (row[1][arm] - row[0][arm]) * context / 1000
        return row[1][arm] + (row[2][arm] - row[1][arm]) * (context - 1000) / 2000

    low, high = (along(row) for row in TABLE["seconds"])
    return low + (high - low) * (batch - 1) / 3


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("context", [0, 1, 999.5, 1000, 1700, 3000, 9e9])
def test_linear_between_the_points(batch: int, context: float) -> None:
    at = table().at(batch, context)
    assert list(at) == [0, 2]
    assert list(at.values()) == pytest.approx([naive(batch, context, 0), naive(batch, context, 1)], rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": [1, 2]}, r"steps \[1, 2\] must begin with 0"),
        ({"steps": [0]}, "must begin with 0, and go on"),
        ({"batches": [4, 1]}, r"batches \[4, 1\] must be rising"),
        ({"contexts": []}, r"contexts \[\] must be rising, and not empty"),
        ({"contexts": [0, 0, 1]}, "must be rising"),
        ({"accept_chances": [0.8]}, "accept_chances has 1 values, needs 2"),
        ({"accept_chances": [0.8, 1.2]}, "accept_chances.1: .*less than or equal to 1"),
        ({"seconds": TABLE["seconds"][:1]}, "seconds must be 2 x 3 x 2 numbers"),
        ({"seconds": [[[0.0, 0.1]] * 3] * 2}, "greater than 0"),
        ({"seconds": [[[math.nan, 0.1]] * 3] * 2}, "finite"),
        ({"draft_extend_seconds": -1}, "draft_extend_seconds"),
        ({"batches": [True, 4]}, "batches.0"),
        ({"unit": "ms"}, "unit"),
    ],
)
def test_a_wrong_table_is_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"1": {"candidate_steps": [0, 2]}, "step_costs": TABLE | changes}))
    with pytest.raises(CostError, match=message) as caught:
        read_costs(path)
    line = str(caught.value)
    assert str(path) in line
    assert "k25serve bench plan adaptive" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "can't be read as JSON"),
        ("[1]", "has no step_costs"),
        ('{"1": {"candidate_steps": [0]}}', "has no step_costs"),
        ("[" * 100_000, "can't be read as JSON"),
    ],
)
def test_no_table(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(CostError, match=message):
        read_costs(path)


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(CostError, match="can't be read as JSON"):
            read_costs(path)


def test_every_arm_has_a_cost(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    content = {"1": {"candidate_steps": [0, 2]}, "8": {"candidate_steps": [0, 3]}, "step_costs": TABLE}
    path.write_text(json.dumps(content))
    with pytest.raises(CostError, match=r"8.candidate_steps \[0, 3\]: the table has costs of \[0, 2\] only"):
        read_costs(path)
    path.write_text(json.dumps(content | {"8": {"candidate_steps": [2]}}))
    assert read_costs(path) == table()
