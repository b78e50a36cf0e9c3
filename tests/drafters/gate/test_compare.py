"""Several ways to speculate in one table."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from k25serve.drafters.checkpoint import GateError
from k25serve.drafters.gate import Arm, Pass, Row, compare, compare_rows, comparison_table
from k25serve.drafters.gate.acceptance import Counts


def row(name: str, *speeds: float, accepted: int | None = None) -> Row:
    counts = None if accepted is None else Counts(1000, accepted, 3000)
    return Row(name, tuple(Pass(speed, counts, 1000, 10.0, 0) for speed in speeds))


NONE = row("none", 80.0, 79.0, 81.0)
NGRAM = row("ngram", 70.0, 71.0, 69.0, accepted=200)
EAGLE = row("eagle3", 120.0, 119.0, 130.0, accepted=1600)


def test_against_the_arm_that_does_not_speculate() -> None:
    comparison = compare_rows([NGRAM, NONE, EAGLE])
    assert (comparison.baseline, comparison.best) == ("none", "eagle3")
    assert [(one.row.name, round(one.speedup, 3), one.verdict) for one in comparison.rows] == [
        ("ngram", 0.875, "slower"),
        ("none", 1.0, "baseline"),
        ("eagle3", 1.5, "faster"),
    ]
    assert comparison_table(comparison).row_count == 3
    value = comparison.as_json()["rows"][2]
    assert [one["tokens_per_second"] for one in value["passes"]] == [120.0, 119.0, 130.0]
    assert (value["tokens_per_second"], value["tokens_per_second_min"], value["tokens_per_second_max"]) == (
        120,
        119,
        130,
    )
    assert value["accept_length"] == 2.6


@pytest.mark.parametrize(
    "speeds",
    [(80.5, 95.0, 96.0), (78.0, 60.0, 61.0), (81.5, 82.0, 82.1), (120.0,)],
    ids=["overlaps above", "overlaps below", "within noise", "one pass"],
)
def test_not_settled(speeds: tuple[float, ...]) -> None:
    base = row("none", *([80.0, 79.0, 81.0] if speeds[0] != 78.0 else [80.0, 77.0, 81.0]))
    comparison = compare_rows([base, row("eagle3", *speeds, accepted=1000)])
    assert (comparison.rows[1].verdict, comparison.best) == ("not settled", None)


def test_the_two_fastest_may_be_not_settled() -> None:
    comparison = compare_rows([NONE, EAGLE, row("mla", 118.0, 125.0, 126.0, accepted=1700)])
    assert [one.verdict for one in comparison.rows] == ["baseline", "faster", "faster"]
    assert comparison.best is None


def test_a_named_baseline() -> None:
    comparison = compare_rows([NONE, EAGLE], baseline="eagle3")
    assert (comparison.best, comparison.as_json()["rows"][0]["verdict"]) == ("eagle3", "slower")


@pytest.mark.parametrize(
    ("rows", "baseline", "told"),
    [
        ([], None, "give at least one"),
        ([NONE, NONE], None, "each with its own name"),
        ([NONE], "vllm", "--baseline vllm: is none of none"),
        ([row("none", 0.0)], None, "made no token"),
    ],
    ids=["empty", "twice", "unknown", "silent"],
)
def test_refused(rows: list[Row], baseline: str | None, told: str) -> None:
    with pytest.raises(GateError, match=told):
        compare_rows(rows, baseline)


async def test_the_same_engine_twice_is_not_settled(serve: Any, fake: Any, sglang: Callable[..., Any]) -> None:
    def answer(_: dict[str, Any]) -> dict[str, Any]:
        # Passes of one engine differ by more than this machine's clock does, in the same way for both arms.
        in_arm = (len(engine.asked) - 1) % (6 + 3 * 51)
        return sglang(tokens=(20, 400, 90)[max(0, in_arm - 6) // 51])

    engine = fake(answer)
    async with serve(engine):
        comparison = await compare([Arm("a", url=engine.url), Arm("b", url=engine.url)])
    assert [one.verdict for one in comparison.rows] == ["baseline", "not settled"]
    assert [one.completion_tokens for one in comparison.rows[1].row.passes] == [1000, 20000, 4500]
    assert comparison.best is None
    # For each arm: a warm-up pass of five prompts and three of fifty, each after one request that is not counted.
    assert len(engine.asked) == 2 * (6 + 3 * 51)


async def test_an_unknown_baseline_is_refused_before_anything_runs(
    serve: Any, fake: Any, sglang: Callable[..., Any]
) -> None:
    async with serve(fake(lambda _: sglang())) as engine:
        with pytest.raises(GateError, match="--baseline x: is none of a"):
            await compare([Arm("a", url=engine.url)], baseline="x")
    assert engine.asked == []


async def test_running_engines_and_booted_profiles(serve: Any, fake: Any, sglang: Callable[..., Any]) -> None:
    booted = []

    async with (
        serve(fake(lambda _: sglang(steps=0, accepted=0))) as plain,
        serve(fake(lambda _: sglang())) as eagle,
    ):

        @asynccontextmanager
        async def boot(profile: str) -> AsyncIterator[str]:
            booted.append(profile)
            yield eagle.url
            booted.append("stopped")

        arms = [Arm("none", url=plain.url), Arm("eagle3", profile="cpu-tiny")]
        comparison = await compare(arms, boot=boot, passes=2)
        assert booted == ["cpu-tiny", "stopped"]
        with pytest.raises(GateError, match="nothing here starts profiles"):
            await compare([Arm("eagle3", profile="cpu-tiny")])
    assert comparison.baseline == "none"
    lengths = {one.row.name: one.row.accept_length for one in comparison.rows}
    assert lengths == {"none": None, "eagle3": 2.5}
    assert all(one.row.completion_tokens == 2 * 50 * 25 for one in comparison.rows)
