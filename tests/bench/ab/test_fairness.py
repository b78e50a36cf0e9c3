"""Planted measurement errors: each is caught, and takes the verdict with it."""

from collections.abc import Callable

import pytest
from load_records.simulated import Box, design, turns

from k25serve.bench.ab.arms import parse_arm
from k25serve.bench.ab.fairness import check_turns, first_of_each
from k25serve.bench.ab.judge import judge, look_at
from k25serve.bench.ab.turn import TurnRun
from k25serve.bench.ab.units import pair_up
from k25serve.bench.ab.verdict import ab_data
from k25serve.bench.engine_sim.settings import SimSettings
from k25serve.bench.load.record import RequestRecord, Tokens

PLAN = design(pairs=4)
ARMS = {"A": parse_arm("--a", "one"), "B": parse_arm("--b", "two")}
SOUND = turns(PLAN, Box(SimSettings()), 5, 1.3)


def in_b(change: Callable[[RequestRecord], RequestRecord]) -> list[TurnRun]:
    """The sound turns with every record of arm B changed."""
    return [turn if turn.arm == "A" else changed(turn, change) for turn in SOUND]


def changed(turn: TurnRun, change: Callable[[RequestRecord], RequestRecord]) -> TurnRun:
    runs = [run.model_copy(update={"records": tuple(map(change, run.records))}) for run in turn.runs]
    return turn.model_copy(update={"runs": tuple(runs)})


def tokens(record: RequestRecord, **fields: object) -> RequestRecord:
    assert record.tokens is not None
    return record.model_copy(update={"tokens": Tokens.model_validate(record.tokens.model_dump() | fields)})


def short(record: RequestRecord) -> RequestRecord:
    return tokens(record, completion=9).model_copy(update={"speculation": None, "finish_reason": "stop"})


def cached(record: RequestRecord) -> RequestRecord:
    return tokens(record, cached=50)


def other_template(record: RequestRecord) -> RequestRecord:
    return tokens(record, prompt=64)


def retokenised(record: RequestRecord) -> RequestRecord:
    """Another tokenizer makes 13 tokens of the text; nobody says so, but the engine's steps don't fit."""
    return tokens(record, completion=13)


def retokenised_without_speculation(record: RequestRecord) -> RequestRecord:
    return tokens(record, completion=18).model_copy(update={"speculation": None})


def retokenised_and_said(record: RequestRecord) -> RequestRecord:
    return tokens(record, source="retokenised")


def stepped(record: RequestRecord) -> RequestRecord:
    return record.model_copy(update={"wall_ended": record.wall_ended + 2.0})


def other_prompt(record: RequestRecord) -> RequestRecord:
    return record.model_copy(update={"asked": record.asked.model_copy(update={"prompt_sha256": "0" * 64})})


PLANTED = {
    "short outputs": (short, "short"),
    "cached prompts in one arm only": (cached, "cached"),
    "clock step": (stepped, "clock"),
    "different template": (other_template, "template"),
    "tokens re-tokenised": (retokenised, "counts"),
    "tokens re-tokenised, more of them, no speculation": (retokenised_without_speculation, "counts"),
    "tokens re-tokenised, as the runner says": (retokenised_and_said, "retokenised"),
    "other prompts": (other_prompt, "prompts"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_caught(name: str) -> None:
    change, code = PLANTED[name]
    data = verdict(in_b(change))
    assert not data.valid
    assert data.outcome == "invalid"
    assert data.verdict.startswith("INVALID, no verdict")
    found = [finding for finding in data.findings if finding.severity == "invalid"]
    assert code in {finding.code for finding in found}
    assert all(finding.detail for finding in found)


def test_without_them_there_is_a_verdict() -> None:
    data = verdict(SOUND)
    assert data.findings == ()
    assert data.outcome == "faster"
    assert data.verdict.startswith("B is faster than A across boots, by throughput at the same load: +")


def test_a_clock_step_between_requests() -> None:
    turn = SOUND[2].model_copy(update={"clock": SOUND[2].clock.model_copy(update={"wall_s": 57.0})})
    found = check_turns([*SOUND[:2], turn, *SOUND[3:]], PLAN.load.cells())
    assert [(one.code, one.where) for one in found] == [("clock", "B in pair 1")]


def test_a_cache_that_one_arm_does_not_tell() -> None:
    silent = [changed(turn, lambda r: tokens(r, cached=None)) for turn in SOUND if turn.arm == "A"]
    warm = [changed(turn, cached) for turn in SOUND if turn.arm == "B"]
    found = first_of_each(check_turns([*silent, *warm], PLAN.load.cells()))
    [finding] = [one for one in found if one.severity == "invalid"]
    assert finding.code == "cached"
    assert "A not told, B 83%" in finding.detail
    assert "(and 3 more like it)" in finding.detail


def test_a_lower_precision_is_told() -> None:
    kinds = {"A": "bf16", "B": "fp8_e4m3"}
    told = [turn.model_copy(update={"server": {"kv_cache_dtype": kinds[turn.arm]}}) for turn in SOUND]
    data = verdict(told)
    assert data.valid
    [finding] = data.findings
    assert finding.code == "precision"
    assert "A bf16 and B fp8_e4m3" in finding.detail


def test_no_whole_pair_is_no_verdict() -> None:
    assert verdict(SOUND[:1]).verdict == "INVALID, no verdict: no pair of turns was finished."


def verdict(given: list[TurnRun]):
    comparisons = judge(pair_up(given, PLAN), PLAN, 0)
    return ab_data(ARMS, PLAN, given, [look_at(comparisons, PLAN, 0)], comparisons)
