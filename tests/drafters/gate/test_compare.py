"""Several ways to speculate in one table."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from k25serve.drafters.checkpoint import GateError
from k25serve.drafters.gate import Arm, Row, compare, compare_rows, comparison_table

NONE = Row("none", 80.0, None, 1000, 12.5, 0)
NGRAM = Row("ngram", 70.0, 1.2, 1000, 14.3, 0)
EAGLE = Row("eagle3", 120.0, 2.6, 1000, 8.3, 0)


def test_against_the_arm_that_does_not_speculate() -> None:
    comparison = compare_rows([NGRAM, NONE, EAGLE])
    assert (comparison.baseline, comparison.best) == ("none", "eagle3")
    assert [(one.row.name, round(one.speedup, 3), one.verdict) for one in comparison.rows] == [
        ("ngram", 0.875, "slower"),
        ("none", 1.0, "baseline"),
        ("eagle3", 1.5, "faster"),
    ]
    assert comparison_table(comparison).row_count == 3


def test_within_noise_the_baseline_is_best() -> None:
    comparison = compare_rows([NONE, Row("eagle3", 82.0, 2.0, 1000, 12.0, 0)])
    assert (comparison.rows[1].verdict, comparison.best) == ("as fast", "none")


def test_a_named_baseline() -> None:
    comparison = compare_rows([NONE, EAGLE], baseline="eagle3")
    assert (comparison.best, comparison.as_json()["rows"][0]["verdict"]) == ("eagle3", "slower")


@pytest.mark.parametrize(
    ("rows", "baseline", "told"),
    [
        ([], None, "give at least one"),
        ([NONE, NONE], None, "each with its own name"),
        ([NONE], "vllm", "--baseline vllm: is none of none"),
        ([Row("none", 0.0, None, 0, 1.0, 50)], None, "made no token"),
    ],
    ids=["empty", "twice", "unknown", "silent"],
)
def test_refused(rows: list[Row], baseline: str | None, told: str) -> None:
    with pytest.raises(GateError, match=told):
        compare_rows(rows, baseline)


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
        comparison = await compare(arms, boot=boot)
        assert booted == ["cpu-tiny", "stopped"]
        with pytest.raises(GateError, match="nothing here starts profiles"):
            await compare([Arm("eagle3", profile="cpu-tiny")])
    assert comparison.baseline == "none"
    lengths = {one.row.name: one.row.accept_length for one in comparison.rows}
    assert lengths == {"none": None, "eagle3": 2.5}
    assert all(one.row.completion_tokens == 50 * 25 for one in comparison.rows)
