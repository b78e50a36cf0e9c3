import pytest
from load_records.simulated import LOAD, design

from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.table import plan_lines
from k25serve.bench.load.plan import LoadPlan
from k25serve.server.errors import UserError


def test_abba() -> None:
    assert design(pairs=4).order == "ABBAABBA"
    assert design(pairs=3).order == "ABBAAB"


@pytest.mark.parametrize(
    ("changes", "scope", "units"),
    [
        ({"pairs": 4, "blocks": 3}, "across boots", 4),
        ({"pairs": 2, "blocks": 3}, "within these boots", 6),
        ({"pairs": 1, "blocks": 5}, "within these boots", 5),
        ({"pairs": 4, "blocks": 2, "booted": False}, "within these boots", 8),
    ],
)
def test_scope_and_units(changes: dict, scope: str, units: int) -> None:
    plan = design(**changes)
    assert (plan.scope, plan.units) == (scope, units)
    assert plan.facts().scope == scope
    assert any(scope in line for line in plan_lines(plan, "x", "y"))


def test_more_boots_find_less_and_more_cells_find_more_slowly() -> None:
    few, many = design(pairs=4).detectable, design(pairs=12).detectable
    assert few is not None
    assert many is not None
    assert 1 < many < few
    wide = design(load=LoadPlan(levels=(1, 8, 64), classes=("code",), single_stream=False, natural=False)).detectable
    assert wide is not None
    assert wide > few


def test_hours_are_boots_and_load() -> None:
    plan = design(pairs=4, boot_s=(3600.0, 1800.0), tpot_s=0.015)
    # 4 requests of 16 tokens, one after the other, in each of 8 turns.
    assert plan.hours == pytest.approx(4 * 1.5 + 8 * 4 * 16 * 0.015 / 3600)
    assert design(blocks=3).turn_s == pytest.approx(3 * design().turn_s)


def test_looks_fall_on_whole_pairs() -> None:
    plan = design(pairs=6, looks=3)
    assert plan.look_units == (2, 4, 6)
    assert design(pairs=2, blocks=4, looks=2).look_units == (4, 8)
    facts = plan.facts()
    assert facts.spent[-1] == pytest.approx(0.05)
    assert facts.nominal == plan.levels(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": 0}, "--pairs 0"),
        ({"blocks": 0}, "--blocks 0"),
        ({"looks": 0}, "--looks 0"),
        ({"looks": 5}, "--looks 5: must be from 1 to 4"),
        ({"looks": 4}, "--looks 4: the first would see a single unit"),
        ({"pairs": 1, "blocks": 1}, "one unit has no spread"),
        ({"alpha": 0.0}, "--alpha 0"),
        ({"alpha": float("nan")}, "--alpha nan"),
        ({"power": 1.0}, "--power 1"),
        ({"unit_sd": -0.1}, "--unit-sd -0.1"),
    ],
)
def test_designs_that_cannot_be(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Design(**({"load": LOAD, "pairs": 4, "blocks": 1, "booted": True, "tokens": 16} | changes))
