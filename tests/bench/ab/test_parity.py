"""Parity samples compared, and asked of served engines."""

import pytest
from load_records.engines import engine

from k25serve.bench.ab.parity.ask import ParityPlan, ask_parity
from k25serve.bench.ab.parity.compare import compare_parity, diverge
from k25serve.bench.ab.parity.sample import Checked, Greedy, ParitySample, Sampled, Unit
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions, ToolCall
from k25serve.bench.load.client import Client
from k25serve.bench.load.endpoint import resolve

WORDS = ("one", "two", "three", "four")


def sample(
    changed: int = 0,
    gap: float = 0.1,
    prompt_tokens: int = 20,
    unit: Unit = "token",
    words: tuple[str, ...] = WORDS,
    valid: int = 10,
) -> ParitySample:
    """20 greedy answers of which the first `changed` differ from the others' at their third token."""
    greedy = tuple(
        Greedy(
            prompt_id=str(i),
            pieces=(*WORDS[:2], "other" if i < changed else "three", "four"),
            gaps=(3.0, 3.0, gap, 3.0),
            prompt_tokens=prompt_tokens,
        )
        for i in range(20)
    )
    drawn = tuple(Sampled(prompt_id=str(i), texts=words * 10) for i in range(4))
    checked = (Checked(what="tool_calls", asked=20, complete=10, valid=valid),)
    return ParitySample(unit=unit, greedy=greedy, sampled=drawn, checked=checked, failures=0)


def test_where_answers_part() -> None:
    found = diverge(sample(), sample(changed=3, gap=0.2))
    assert (found.prompts, found.diverged, found.unit) == (20, 3, "token")
    assert found.first == (2, 2, 2)
    assert found.gaps == pytest.approx((0.1, 0.1, 0.1))
    assert found.compared == 17 * 4 + 3 * 3
    assert found.rate == pytest.approx(0.15)
    by_character = diverge(sample(unit="character"), sample(changed=1))
    assert (by_character.unit, by_character.first, by_character.gaps) == ("character", (6,), ())


def test_an_answer_that_is_longer_parts_at_its_end() -> None:
    one, other = sample(), sample()
    cut = other.greedy[0].model_copy(update={"pieces": WORDS[:3]})
    found = diverge(one, other.model_copy(update={"greedy": (cut, *other.greedy[1:])}))
    assert (found.diverged, found.first) == (1, (3,))


def test_b_is_judged_by_how_often_a_parts_from_itself() -> None:
    noisy = compare_parity([sample(), sample(changed=12)], [sample(changed=12)], 0)
    assert noisy is not None
    assert (noisy.outcome, noisy.reasons) == ("same", ())
    other = compare_parity([sample(), sample(changed=1)], [sample(changed=12)], 0)
    assert other is not None
    assert other.outcome == "different"
    assert "part more often" in other.reasons[0]


def test_wide_gaps_are_no_rounding() -> None:
    found = compare_parity([sample(gap=2.0), sample(changed=4, gap=2.0)], [sample(changed=4, gap=2.0)], 0)
    assert found is not None
    assert found.outcome == "different"
    assert "4 of 4 greedy answers part where the top two are over 0.5 nat apart" in found.reasons[0]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (sample(words=("one", "one", "one", "two")), "sampled answers are not from one distribution"),
        (sample(valid=1), "tool_calls: valid are 10 of 10 in A and 1 of 10 in B"),
        (sample(prompt_tokens=23), "20 of 20 prompts have other token counts"),
    ],
)
def test_other_signs_of_another_model(other: ParitySample, reason: str) -> None:
    found = compare_parity([sample(), sample()], [other], 0)
    assert found is not None
    assert found.outcome == "different"
    assert reason in found.reasons[0]


def test_too_little_is_not_called_the_same() -> None:
    assert compare_parity([], [sample()], 0) is None
    once = compare_parity([sample()], [sample()], 0)
    assert once is not None
    assert once.outcome == "not measured"


PLAN = ParityPlan(prompts=8, tokens=16, sampled=2, samples=3, structured=3)


async def asked(dialect: str, options: SimOptions) -> tuple[ParitySample, list[dict]]:
    app = engine(options, dialect=dialect)
    async with running(app) as url, Client(resolve(url), 30) as client:
        found = await ask_parity(client, "sim", 0, PLAN, ("code", "tools"))
    return found, [call.body for call in app.record.calls]


@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
async def test_what_is_asked_and_read(dialect: str) -> None:
    options = SimOptions(
        pieces=("a", "b"),
        accepted=(1, 1),
        reasoning_steps=1,
        tool_calls=(ToolCall(name="f", arguments=('{"x": ', "1}")), ToolCall(name="g", arguments=("{broken",))),
    )
    found, bodies = await asked(dialect, options)
    assert found.failures == 0
    assert found.unit == "character"
    assert {"".join(one.pieces) for one in found.greedy} == {"aba"}
    assert {one.texts for one in found.sampled} == {("aba",) * 3}
    calls, texts = found.checked
    assert (calls.what, calls.asked, calls.complete, calls.valid) == ("tool_calls", 3, 3, 0)
    assert (texts.what, texts.asked, texts.complete, texts.valid) == ("json", 3, 3, 0)
    greedy = [body for body in bodies if body.get("logprobs")]
    assert len(greedy) == 8
    assert all(body["temperature"] == 0 and body["top_logprobs"] == 2 for body in greedy)
    assert "ignore_eos" not in greedy[0]
    drawn = [body for body in bodies if body["temperature"] == 1]
    assert len({body["seed"] for body in drawn}) == 6


async def test_both_dialects_of_one_engine_are_the_same() -> None:
    options = SimOptions(pieces=("a", '{"k": 1}'), accepted=(1, 1), prompt_tokens=30)
    one, other = [(await asked(dialect, options))[0] for dialect in ("sglang", "vllm")]
    found = compare_parity([one, one], [other], 0)
    assert found is not None
    assert found.outcome == "same"


async def test_refused_questions_are_counted() -> None:
    found, _ = await asked("sglang", SimOptions(fault="bad_request"))
    assert found.greedy == ()
    assert found.failures == 8 + 2 * 3 + 2 * 3
    assert "HTTP 400" in found.first_error
