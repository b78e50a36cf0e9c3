"""Whole runs against served simulated engines."""

import pytest
from load_records.engines import Turning, engine

from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.load.campaign import Settings, load
from k25serve.bench.load.endpoint import resolve
from k25serve.bench.load.plan import LoadPlan
from k25serve.bench.load.record import Cell
from k25serve.server.errors import UserError

SMALL = LoadPlan(levels=(1, 4), classes=("code", "tools"), requests=4, single_stream=False, natural=False)

ROLE = '{"choices": [{"index": 0, "delta": {"role": "assistant"}}]}'


async def run(app, **changes):
    advanced = []
    async with running(app) as url:
        settings = Settings(resolve(f"{url}/v1"), **({"plan": SMALL, "tokens": 32} | changes))
        data, records = await load(settings, lambda: advanced.append(1))
    assert len(advanced) == len(records)
    return data, records


@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
async def test_a_sound_run(dialect: str) -> None:
    app = engine(SimOptions(cached_tokens=0, reasoning_steps=3), dialect=dialect)
    data, records = await run(app)
    assert data.valid, data.findings
    assert [cell.cell for cell in data.cells] == [Cell(level=1), Cell(level=4)]
    assert data.endpoint.endswith("/v1/chat/completions")
    assert "/v1/v1" not in data.endpoint
    assert data.server["owned_by"] == dialect
    assert data.body["ignore_eos"] is True
    assert data.body["max_tokens"] == 32
    for cell in data.cells:
        assert cell.achieved_ratio == 1.0
        assert cell.output_tokens == 32 * cell.requests
        assert cell.accept_length is not None
        assert cell.accept_length == pytest.approx(2.1, abs=0.6)
        assert cell.tpot_s is not None
        assert cell.ttft_s is not None
        assert cell.first_answer_s is not None
        assert cell.first_answer_s.p50 > cell.ttft_s.p50
    assert {one.cell.prompt_class for one in data.classes} == {"code", "tools"}
    mixed, parts = data.cells[0], [one for one in data.classes if one.cell.level == 1]
    assert sum(part.tokens_per_s for part in parts) == pytest.approx(mixed.tokens_per_s)
    asked = [call.body for call in app.record.calls if call.body["max_tokens"] == 32]
    assert len(asked) == len(records)
    assert all(body["ignore_eos"] for body in asked)


async def test_concurrency_is_what_the_level_says() -> None:
    app = engine()
    seen = []
    answer = app._generate

    async def watched(*given):
        seen.append(app.record.running + 1)
        await answer(*given)

    app._generate = watched
    await run(app, plan=LoadPlan(levels=(4,), classes=("code",), requests=16, single_stream=False, natural=False))
    assert max(seen) == 4
    assert seen.count(4) > 8


async def test_contexts_are_sized_by_the_engine_s_own_count() -> None:
    plan = LoadPlan(levels=(1,), classes=("prose",), contexts=(300,), requests=2, single_stream=False, natural=False)
    data, _ = await run(engine(), plan=plan)
    assert data.cells[0].prompt_tokens / data.cells[0].requests == pytest.approx(340, abs=45)


async def test_natural_ends_are_measured_apart() -> None:
    plan = LoadPlan(levels=(1,), classes=("code",), requests=2, single_stream=True, natural=True)
    stops = engine(SimOptions(cached_tokens=0, accepted=(3, 0, 2)))
    data, records = await run(Turning(stops), plan=plan, tokens=9, natural_tokens=200)
    natural = next(cell for cell in data.cells if cell.cell.phase == "natural")
    assert natural.achieved_ratio is None
    assert natural.finish_reasons == {"stop": natural.requests}
    assert natural.accept_length == pytest.approx(1 + 5 / 3)
    assert data.valid, data.findings
    assert {r.asked.ignore_eos for r in records if r.cell.phase == "natural"} == {False}


@pytest.mark.parametrize(
    ("options", "ratio", "codes"),
    [
        (SimOptions(cached_tokens=0, accepted=()), 1 / 256, {"short"}),
        (SimOptions(cached_tokens=0, accepted=(2,) * 14), 43 / 256, {"short"}),
        (SimOptions(frames=(ROLE, "[DONE]")), 0, {"short", "no_usage"}),
    ],
    ids=["a-one-token", "b-43-and-stop", "c-nothing"],
)  # fmt: skip
async def test_short_and_empty_outputs_are_invalid(options: SimOptions, ratio: float, codes: set[str]) -> None:
    """D04 (a) to (c): 256 tokens were asked for."""
    plan = LoadPlan(levels=(4,), classes=("code",), requests=8, single_stream=False, natural=False)
    data, _ = await run(Turning(engine(options)), plan=plan, tokens=256)
    assert not data.valid
    assert {finding.code for finding in data.findings if finding.severity == "invalid"} == codes
    assert data.cells[0].achieved_ratio == pytest.approx(ratio)
    assert f"{ratio:.3f}" in next(finding.detail for finding in data.findings if finding.code == "short")
    assert data.body["ignore_eos"] is True
    assert data.body["max_tokens"] == 256


async def test_three_failures_of_a_hundred() -> None:
    """D04 (d)."""
    plan = LoadPlan(levels=(10,), classes=("code",), requests=100, single_stream=False, natural=False)
    broken = Turning(engine(SimOptions(fault="plain_500")), chosen=lambda number: number in (10, 40, 70))
    data, _ = await run(broken, plan=plan, tokens=16)
    [cell] = data.cells
    assert (cell.requests, cell.failures) == (100, 3)
    assert cell.ttft_s is not None
    assert cell.ttft_s.n == 97
    assert data.valid
    [finding] = data.findings
    assert (finding.severity, finding.code) == ("warning", "failed")
    assert "HTTP 500" in finding.detail


async def test_preflight_faults_are_one_line() -> None:
    cases = [
        (engine(SimOptions(fault="bad_request")), "POST .* failed: HTTP 400"),
        (engine(SimOptions(frames=("[DONE]",))), "gave no output tokens in its usage"),
        (engine(served_model_name="other"), "--model kimi: .* does not serve it; pass other"),
    ]
    for app, message in cases:
        with pytest.raises(UserError, match=message):
            await run(app, model="kimi" if "--model" in message else None)
    with pytest.raises(UserError, match="lists no model"):
        await load(Settings(resolve("http://127.0.0.1:9"), SMALL), lambda: None)
    with pytest.raises(UserError, match="--api-key-env K25_NO_SUCH_KEY: that variable is not set"):
        await run(engine(), key_env="K25_NO_SUCH_KEY")
