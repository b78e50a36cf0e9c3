"""Turns against served simulated engines: order, resumption, equal engines in two dialects."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from load_records.engines import engine

from k25serve.bench.ab.arms import ArmSpec, parse_arm
from k25serve.bench.ab.journal import Journal
from k25serve.bench.ab.parity.ask import ParityPlan
from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.result import AbData
from k25serve.bench.ab.run import Campaign, run_turns
from k25serve.bench.ab.systemd import Systemctl
from k25serve.bench.ab.verdict import ab_data, records_of
from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.load.plan import LoadPlan
from k25serve.server.errors import UserError

LOAD = LoadPlan(levels=(1, 3), classes=("code",), requests=3, single_stream=False, natural=False)
PARITY = ParityPlan(prompts=8, tokens=8, sampled=1, samples=4, structured=1)


class Boots:
    """Profiles named `sglang`, `vllm`, ...: each boot serves a new simulated engine. `fail_at`: that boot dies."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.names: list[str] = []
        self.engines: list[SimEngine] = []
        self.fail_at = fail_at

    @contextlib.asynccontextmanager
    async def __call__(self, profile: str) -> AsyncIterator[str]:
        if len(self.names) == self.fail_at:
            raise UserError("the engine ended")
        self.names.append(profile)
        dialect, _, speed = profile.partition("-")
        steps = {"prefill_s": 0.003, "step_s": 0.012 if speed == "slow" else 0.003, "step_cv": 0.0}
        app = engine(SimOptions(cached_tokens=0, accepted=(1,) * 15), dialect=dialect, **steps)
        self.engines.append(app)
        async with running(app) as url:
            yield url


def campaign(tmp_path: Path, boots: Boots, a: str = "sglang", b: str = "vllm", **changes) -> Campaign:
    fields = {"load": LOAD, "pairs": 3, "blocks": 1, "booted": True, "tokens": 31}
    arms: dict[str, ArmSpec] = {"A": parse_arm("--a", a), "B": parse_arm("--b", b)}
    said: list[str] = []
    return Campaign(
        arms=arms,
        design=Design(**(fields | changes.pop("design", {}))),
        boot=boots,
        systemctl=Systemctl(["/no/such"]),
        journal=Journal(tmp_path, {"a": a, "b": b}),
        say=said.append,
        advance=lambda: None,
        parity=PARITY,
        **changes,
    )


async def result(given: Campaign) -> AbData:
    turns, looks, comparisons = await run_turns(given)
    data = ab_data(given.arms, given.design, turns, looks, comparisons)
    assert AbData.model_validate_json(data.model_dump_json()) == data
    assert len(records_of(turns)) == sum(cell.requests for turn in data.turns for cell in turn.cells)
    return data


async def test_equal_engines_in_two_dialects_come_out_equal(tmp_path: Path) -> None:
    boots = Boots()
    data = await result(campaign(tmp_path, boots))
    assert boots.names == ["sglang", "vllm", "vllm", "sglang", "sglang", "vllm"]
    assert data.valid, data.findings
    assert data.outcome == "not settled"
    assert [arm.server["owned_by"] for arm in data.arms] == ["sglang", "vllm"]
    assert data.parity is not None
    assert data.parity.mismatched == 0
    for turn in data.turns:
        for cell in turn.cells:
            assert cell.accept_length == pytest.approx(2.0)
            assert cell.tokens_per_chunk == pytest.approx(2.0)
            assert cell.achieved_ratio == 1.0
    for one in data.comparisons:
        assert one.gain == pytest.approx(1.0, abs=0.4)


async def test_a_slow_engine_is_found_slow_and_both_get_the_same_prompts(tmp_path: Path) -> None:
    boots = Boots()
    data = await result(campaign(tmp_path, boots, a="sglang-fast", b="sglang-slow"))
    assert all(one.gain < 0.6 for one in data.comparisons if one.metric == "tpot")
    assert data.outcome in ("slower", "not settled")
    asked = [
        [call.body["messages"] for call in app.record.calls if call.body.get("ignore_eos")] for app in boots.engines
    ]
    assert sorted(map(str, asked[0])) == sorted(map(str, asked[1]))
    assert not {str(one) for one in asked[0]} & {str(one) for one in asked[2]}


async def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the engine ended"):
        await run_turns(campaign(tmp_path, Boots(fail_at=3)))
    again = Boots()
    given = campaign(tmp_path, again)
    data = await result(given)
    assert again.names == ["sglang", "sglang", "vllm"]
    assert [turn.arm for turn in data.turns] == list("ABBAAB")
    assert data.valid
    given.journal.remove()
    assert not given.journal.folder.exists()


async def test_another_plan_does_not_take_up_the_turns(tmp_path: Path) -> None:
    one, other = Journal(tmp_path, {"seed": 1}), Journal(tmp_path, {"seed": 2})
    assert one.folder != other.folder
    one.unit_states({"prod": True})
    assert one.unit_states({"prod": False}) == {"prod": True}
    (one.folder / "turn-000.json").write_text("{}")
    with pytest.raises(UserError, match=r"turn-000\.json: not a finished turn"):
        one.turns()


async def test_it_stops_at_the_look_that_settles_it(tmp_path: Path) -> None:
    boots = Boots()
    plan = {"pairs": 6, "looks": 2, "spending": "pocock"}
    data = await result(campaign(tmp_path, boots, a="sglang-slow", b="sglang-fast", design=plan))
    assert data.outcome == "faster"
    assert len(boots.names) == 2 * data.looks[-1].units
    assert data.looks[-1].stopped
    assert data.scope == "across boots"


async def test_running_engines_take_turns_without_boots(tmp_path: Path) -> None:
    async with running(engine()) as a, running(engine(dialect="vllm")) as b:
        plan = {"booted": False, "pairs": 2, "blocks": 2}
        data = await result(campaign(tmp_path, Boots(), a=a, b=f"{b}/v1", design=plan))
    assert data.scope == "within these boots"
    assert "within these boots" in data.verdict or not data.valid
    assert {len(one.log_gains) for one in data.comparisons} == {4}
    assert {turn.boot_s for turn in data.turns} == {0.0}
