"""From turns to words."""

import math

import pytest
from load_records.simulated import Box, design, turns

from k25serve.bench.ab.judge import judge, look_at, overall
from k25serve.bench.ab.same_latency import same_latency
from k25serve.bench.ab.units import Paired, pair_up
from k25serve.bench.ab.verdict import sentence
from k25serve.bench.engine_sim.settings import SimSettings
from k25serve.bench.load.plan import LoadPlan
from k25serve.bench.load.record import Cell

BOX = Box(SimSettings(num_draft_tokens=0), boot_sd=0.01)
ONE, EIGHT = Cell(level=1), Cell(level=8)


def paired(cell: Cell, *gains: float, metric: str = "tokens_per_s", at: float = 100.0) -> Paired:
    if metric == "tokens_per_s":
        return Paired(cell, metric, (at,) * len(gains), tuple(at * gain for gain in gains))
    return Paired(cell, metric, (at,) * len(gains), tuple(at / gain for gain in gains))


def two_cells():
    return design(load=LoadPlan(levels=(1, 8), classes=("code",), single_stream=False, natural=False))


def test_a_gain_is_oriented() -> None:
    slower = paired(ONE, 0.9, metric="tpot")
    assert slower.b[0] > slower.a[0]
    assert slower.log_gains[0] == pytest.approx(math.log(0.9))


def test_words_by_throughput() -> None:
    plan = two_cells()
    up, down, flat = (1.20, 1.21, 1.22, 1.20), (0.80, 0.81, 0.80, 0.82), (1.1, 0.9, 1.02, 0.97)

    def outcome(one: tuple[float, ...], eight: tuple[float, ...]) -> str:
        return overall(judge([paired(ONE, *one), paired(EIGHT, *eight)], plan, 0))

    assert outcome(up, up) == outcome(up, flat) == "faster"
    assert outcome(down, flat) == "slower"
    assert outcome(up, down) == "mixed"
    assert outcome(flat, flat) == "not settled"


def test_the_sentence_names_scope_cells_and_what_is_open() -> None:
    plan = two_cells()
    found = judge([paired(ONE, 1.2, 1.21, 1.22, 1.2), paired(EIGHT, 1.1, 0.9, 1.02, 0.97)], plan, 0)
    told = sentence("faster", found, plan.scope, [])
    assert told.startswith("B is faster than A across boots, by throughput at the same load: +20.7 % (")
    assert "at C=1 mixed; not settled at C=8 mixed." in told
    settled = judge([paired(ONE, 1.1, 0.9, 1.02, 0.97)], plan, 0)
    told = sentence("not settled", settled, "within these boots", [])
    assert told.startswith("Not settled: no difference in throughput was found within these boots; a gain of +")


def test_a_late_look_only_stops_when_every_throughput_is_settled() -> None:
    plan = design(pairs=6, looks=2, spending="pocock", load=two_cells().load)
    up, flat = (1.20, 1.21, 1.205), (1.1, 0.9, 1.02)
    some = look_at(judge([paired(ONE, *up), paired(EIGHT, *flat)], plan, 0), plan, 0)
    assert (some.stopped, some.rejected, some.units) == (False, 1, 3)
    assert look_at(judge([paired(ONE, *up), paired(EIGHT, *up)], plan, 0), plan, 0).stopped
    assert look_at(judge([paired(ONE, *flat)], plan, 1), plan, 1).stopped


def test_a_unit_is_a_boot_or_a_block() -> None:
    across = design(pairs=3, blocks=2)
    assert {len(one.a) for one in pair_up(turns(across, BOX, 1), across)} == {3}
    within = design(pairs=2, blocks=2)
    assert {len(one.a) for one in pair_up(turns(within, BOX, 1), within)} == {4}
    assert {len(one.a) for one in pair_up(turns(within, BOX, 1)[:3], within)} == {2}


def test_an_engine_twice_as_fast_has_half_the_latency() -> None:
    plan = design(pairs=4)
    found = {one.metric: one for one in judge(pair_up(turns(plan, BOX, 2, 2.0), plan), plan, 0)}
    for one in found.values():
        assert one.outcome == "faster"
        assert one.gain == pytest.approx(2.0, rel=0.1)
        assert one.low is not None
        assert one.high is not None
        assert one.low < one.gain < one.high


def curve(level: int, tpot: float, rate: float, gain: float) -> list[Paired]:
    cell = Cell(level=level)
    return [
        paired(cell, gain, gain * 1.01, gain, at=rate),
        paired(cell, gain, gain * 1.01, gain, metric="tpot", at=tpot),
    ]


def test_throughput_at_the_same_latency() -> None:
    """B gives 20 % more at each level, each token 20 % sooner: read at A's latency the gain is larger than that."""
    found = same_latency([*curve(1, 0.010, 100, 1.2), *curve(8, 0.020, 400, 1.2), *curve(64, 0.080, 800, 1.2)])
    assert [round(one.tpot_s, 3) for one in found] == [0.01, 0.02]
    for one in found:
        assert one.gain > 1.2
        assert one.low is not None
        assert one.low <= one.gain
        assert one.tokens_per_s_b > one.tokens_per_s_a


def test_no_latency_beyond_what_was_measured() -> None:
    assert same_latency(curve(1, 0.010, 100, 1.2)) == ()
    assert same_latency([*curve(1, 0.010, 100, 5.0), *curve(8, 0.011, 400, 5.0)]) == ()
