"""Criteria, gains and the sentence, from records whose figures are known."""

import pytest
from load_records.make import record

from k25serve.bench.load.record import Cell
from k25serve.bench.load.result import Clock, LoadData
from k25serve.bench.load.summary import summarise
from k25serve.bench.plan.acceptance import load_accept
from k25serve.bench.prove.configuration import Targets
from k25serve.bench.prove.steps.plan import measured_curve
from k25serve.bench.prove.verdict import Swept, judge, precision

LEVEL = 4


def swept(name: str, slower: tuple[float, ...], kv: str | None = "auto", levels: tuple[int, ...] = (1, LEVEL)) -> Swept:
    """100 tok/s of a stream at C=1, each prompt slower by its factor."""
    records = [
        record(
            number,
            cell=Cell(level=level),
            sent_s=0.0 if level > 1 else float(number),
            chunk_s=(0.1, *(0.1 + 0.03 * i * factor for i in range(11)), 0.1 + 0.3 * factor, 0.1 + 0.3 * factor),
            ended_s=0.1 + 0.3 * factor,
            wall_ended=1000.1 + number + 0.3 * factor,
        )
        for level in levels
        for number, factor in enumerate(slower)
    ]
    cells = tuple(summarise(Cell(level=level), [one for one in records if one.cell.level == level]) for level in levels)
    data = LoadData(
        endpoint="", model="", runner="own", server={}, body={}, seed=0, cells=cells, findings=(), valid=True,
        clock=Clock(monotonic_s=1, wall_s=1),
    )  # fmt: skip
    return Swept(name, data, records, kv)


def targets(single: float, total: float) -> Targets:
    return Targets(single_tok_s=single, total_tok_s=total, total_level=LEVEL)


def test_all_met() -> None:
    """Four streams of 31 tokens in 0.4 s: 310 tok/s; the baseline takes 2.0 and 2.2 times as long for its tokens."""
    found = judge(targets(99, 309), swept("baseline", (2.0, 2.2, 2.0, 2.2)), swept("p", (1.0,) * 4))
    assert [one.met for one in found.criteria] == [True, True, True]
    assert found.sentence.startswith("p meets every target")
    single, four = found.gains
    assert single.tpot == pytest.approx((2.0 * 2.2) ** 0.5)
    assert single.tpot_low is not None
    assert single.tpot_high is not None
    assert 1.9 < single.tpot_low < single.tpot < single.tpot_high < 2.3
    assert single.prompts == 4
    assert (four.tpot, four.level) == (None, LEVEL)
    assert four.tokens_per_s == pytest.approx((0.1 + 0.66) / 0.4)


@pytest.mark.parametrize(("single", "total"), [(100.01, 300.0), (99.0, 310.1)])
def test_a_missed_target_is_the_verdict(single: float, total: float) -> None:
    found = judge(targets(single, total), swept("baseline", (2.0,) * 4), swept("p", (1.0,) * 4))
    assert sum(one.met is False for one in found.criteria) == 1
    assert found.sentence.startswith("p misses")


def test_more_than_is_not_at_least() -> None:
    """The stream's target is to be passed, the total's to be reached."""
    arm = swept("p", (1.0,) * 4)
    rate = 1 / next(one.tpot_s.mean for one in arm.data.cells if one.tpot_s)
    total = arm.data.cells[1].tokens_per_s
    found = judge(targets(rate, total), arm, arm)
    assert [one.met for one in found.criteria] == [False, True, True]


@pytest.mark.parametrize(
    ("theirs", "ours", "met"),
    [
        ("auto", "bfloat16", True),
        ("bfloat16", "float16", True),
        ("auto", "fp8_e4m3", False),
        ("fp8_e4m3", "auto", False),
        ("fp8_e4m3", "fp8_e4m3", True),
        ("fp8_e4m3", "fp8_e5m2", False),
        ("bf16", "fp4_e2m1", False),
        ("auto", "int8", False),
        (None, "bfloat16", None),
        ("auto", None, None),
    ],
)
def test_kv_precision(theirs: str | None, ours: str | None, met: bool | None) -> None:
    found = judge(targets(1, 1), swept("baseline", (1.0,) * 4, theirs), swept("p", (1.0,) * 4, ours))
    assert found.criteria[-1].met is met
    assert ("not settled" in found.sentence) is (met is None)


def test_what_was_not_measured_settles_nothing() -> None:
    found = judge(targets(1, 1), swept("baseline", (1.0,) * 4), swept("p", (1.0,) * 4, levels=(LEVEL,)))
    assert found.criteria[0].met is None
    assert "not measured" in found.sentence
    assert found.gains[0].tpot is None


def test_one_prompt_has_no_interval() -> None:
    found = judge(targets(1, 1), swept("baseline", (2.0,)), swept("p", (1.0,)))
    assert found.gains[0].tpot == pytest.approx(2)
    assert found.gains[0].tpot_low is None
    assert "95 %" not in found.sentence


@pytest.mark.parametrize(("slower", "settled"), [((2.0, 2.2, 2.0, 2.2), True), ((1.2, 0.9, 1.1, 0.8), False)])
def test_an_interval_around_1_settles_nothing(slower: tuple[float, ...], settled: bool) -> None:
    found = judge(targets(1, 1), swept("baseline", slower), swept("p", (1.0,) * 4))
    assert ("which holds 1" not in found.sentence) is settled


def test_names_of_precision() -> None:
    assert precision("float32") == precision("auto") == precision("bfloat16")
    assert precision("nvfp4") == "nvfp4"
    assert precision(None) is None


def test_the_plan_takes_what_was_measured() -> None:
    told = summarise(Cell(level=1), [record(0)])  # every step accepts 2 of 3
    assert measured_curve(told, 3).lengths == (2.0, 3.0)
    noisy = told.model_copy(update={"position_rate": (0.5, 0.9, 0.9), "accept_length": 3.3})
    assert measured_curve(noisy, 3).length(3) == pytest.approx(3.3)
    silent = told.model_copy(update={"position_rate": (), "accept_length": None})
    assert measured_curve(silent, 3) == load_accept("golden")
