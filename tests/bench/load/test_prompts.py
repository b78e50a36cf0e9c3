import orjson
import pytest

from k25serve.bench.load.plan import CLASSES, LoadPlan
from k25serve.bench.load.prompts import Prompts, Sampling
from k25serve.bench.load.record import Cell
from k25serve.server.errors import UserError

SAMPLING = Sampling("m", tokens=64, natural_tokens=512, temperature=0.0, seed=7)
MIXED = Cell(level=4)


def test_the_same_salt_gives_both_arms_the_same_bytes_and_another_none_of_them() -> None:
    first, again, other = (Prompts().requests(MIXED, 24, CLASSES, SAMPLING, salt) for salt in ("a", "a", "b"))
    assert first == again
    hashes = [request.asked.prompt_sha256 for request in (*first, *other)]
    assert len(set(hashes)) == 48


def test_classes_take_turns() -> None:
    asked = [request.asked.prompt_class for request in Prompts().requests(MIXED, 12, CLASSES, SAMPLING, "a")]
    assert asked == [*CLASSES, *CLASSES]
    single = Cell(level=1, prompt_class="prose")
    assert {r.asked.prompt_class for r in Prompts().requests(single, 30, CLASSES, SAMPLING, "a")} == {"prose"}


def test_the_body_says_what_is_recorded() -> None:
    for phase, tokens in (("system", 64), ("natural", 512)):
        [request] = Prompts().requests(Cell(level=1, phase=phase), 1, ("tools",), SAMPLING, "a")
        body = orjson.loads(request.body)
        assert body["max_tokens"] == request.asked.max_tokens == tokens
        assert body.get("ignore_eos", False) is request.asked.ignore_eos is (phase == "system")
        assert body["stream_options"] == {"include_usage": True}
        assert body["tools"]


def test_context_is_as_many_words_as_the_engine_needs() -> None:
    cell = Cell(level=1, context_tokens=1000)
    [request] = Prompts(words_per_token=0.5).requests(cell, 1, ("prose",), SAMPLING, "a")
    text = orjson.loads(request.body)["messages"][0]["content"]
    assert len(text.split("\n\n")[1].split()) == 500
    assert text.startswith("Note ")


def test_an_unknown_class() -> None:
    with pytest.raises(UserError, match="--class poetry: none of code"):
        Prompts().check(("code", "poetry"))


def test_a_plan_s_cells() -> None:
    plan = LoadPlan(levels=(1, 8), classes=("code", "prose"), contexts=(0, 512))
    cells = plan.cells()
    assert len(cells) == len(set(cells)) == 2 * 2 + 2 * 2 + 2
    assert all(plan.count(cell) >= max(12, 2 * cell.level) for cell in cells)
    assert all(plan.count(cell) % cell.level == 0 for cell in cells)
    assert LoadPlan(single_stream=False, natural=False).cells() == tuple(Cell(level=n) for n in LoadPlan().levels)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("levels", (0,), "--level 0"),
        ("levels", (2, 2), "--level 2, 2"),
        ("levels", (), "--level \\(none\\)"),
        ("classes", ("code", "code"), "--class code, code"),
        ("contexts", (-1,), "--context -1"),
        ("requests", 0, "--requests 0"),
    ],
)
def test_a_plan_that_cannot_be(field: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        LoadPlan(**{field: value})
