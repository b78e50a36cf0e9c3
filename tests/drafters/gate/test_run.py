"""The gate against an engine at the HTTP seam: what it sends, what it counts, what it says when the engine fails."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from k25serve.drafters.check import Verdict
from k25serve.drafters.checkpoint import GateError
from k25serve.drafters.gate import GateSettings, gate_table, load_prompts, run_gate, write_json
from k25serve.drafters.gate.acceptance import Counts

Make = Callable[..., dict[str, Any]]
TOOL_CALL = [{"id": "call-1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]


def class_of(body: dict[str, Any]) -> str:
    question = body["messages"][0]["content"]
    return next(prompt.prompt_class for prompt in load_prompts().prompts if prompt.user == question)


async def test_acceptance_by_class_and_thinking(serve: Any, fake: Any, sglang: Make) -> None:
    accepted = {"code": 20, "maths": 25, "chat": 10, "tools": 15, "chinese": 5}
    async with serve(fake(lambda body: sglang(accepted=accepted[class_of(body)]))) as engine:
        result = await run_gate(engine.url + "/v1/")
    assert (result.model, result.counted_by, result.verdict, result.failures) == ("toy", "response", Verdict.PASS, {})
    lengths = {name: group.accept_length for name, group in result.classes.items()}
    assert lengths == {"code": 3.0, "maths": 3.5, "chat": 2.0, "tools": 2.5, "chinese": 1.5}
    assert result.overall.counts == Counts(500, 12 * 20 + 10 * 25 + 10 * 10 + 8 * 15 + 10 * 5, 1500)
    assert result.thinking["on"].requests + result.thinking["off"].requests == 50
    # One request before the fifty, not counted.
    assert len(engine.asked) == 51
    assert result.overall.completion_tokens == 50 * 25


async def test_what_is_sent(serve: Any, fake: Any, sglang: Make) -> None:
    async with serve(fake(lambda _: sglang())) as engine:
        await run_gate(engine.url, GateSettings(max_tokens=77), model="toy")
    bodies = engine.asked[1:]
    assert Counter(body["chat_template_kwargs"]["thinking"] for body in bodies)[True] > 15
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in bodies} == {("toy", 0, 77)}
    assert all(body["return_spec_tokens_details"] for body in bodies)
    assert sum("tools" in body for body in bodies) == 8


async def test_a_tool_call_is_answered_and_goes_on(serve: Any, fake: Any, sglang: Make) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return sglang(tool_calls=TOOL_CALL, content=None, reasoning_content="hm") if "tools" in body else sglang()

    async with serve(fake(answer)) as engine:
        result = await run_gate(engine.url)
    assert result.tool_calls == 8
    # Two rounds, and no third though the model would call again.
    assert result.classes["tools"].requests == 16
    assert (result.overall.prompts, result.overall.requests) == (50, 58)
    assert "50 prompts, 58 requests" in str(gate_table(result).caption)
    second = next(body for body in engine.asked if len(body["messages"]) == 3)
    assert second["messages"][1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "tool_calls": TOOL_CALL,
    }
    assert second["messages"][2]["tool_call_id"] == "call-1"
    assert json.loads(second["messages"][2]["content"])["city"] == "Oslo"


async def test_a_call_that_was_cut_short_is_not_sent_back(serve: Any, fake: Any, sglang: Make) -> None:
    cut = [{**TOOL_CALL[0], "function": {"name": "get_weather", "arguments": '{"city": "Os'}}]

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return sglang(tool_calls=cut) if "tools" in body else sglang()

    async with serve(fake(answer)) as engine:
        result = await run_gate(engine.url)
    assert (result.tool_calls, result.failures, result.classes["tools"].requests) == (0, {}, 8)


async def test_vllm_without_counts_in_its_answers(serve: Any, fake: Any) -> None:
    """vLLM 0.16 has server-wide counters only: read around each class."""
    served = Counter[str]()

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        served["drafts"] += 10
        served["accepted"] += 20 if class_of(body) == "code" else 5
        return {"choices": [{"message": {"content": "x"}}], "usage": {"completion_tokens": 30}}

    def metrics() -> str:
        return (
            f"vllm:spec_decode_num_drafts_total {served['drafts']}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {served['accepted']}\n"
            f"vllm:spec_decode_num_draft_tokens_total {3 * served['drafts']}\n"
        )

    async with serve(fake(answer, metrics)) as engine:
        result = await run_gate(engine.url)
    assert result.counted_by == "counters"
    assert (result.classes["code"].accept_length, result.classes["chat"].accept_length) == (3.0, 1.5)
    assert result.overall.counts == Counts(500, 12 * 20 + 38 * 5, 1500)


async def test_an_engine_that_does_not_speculate(serve: Any, fake: Any, sglang: Make) -> None:
    async with serve(fake(lambda _: sglang(steps=0, accepted=0))) as engine:
        result = await run_gate(engine.url, GateSettings(policy="refuse"))
    assert (result.verdict, result.exit_code) == (Verdict.REFUSE, 1)
    assert "reports no speculation" in result.reasons[0]


async def test_a_drafter_of_which_nothing_is_accepted(serve: Any, fake: Any, sglang: Make) -> None:
    """https://github.com/sgl-project/sglang/issues/27829: it boots, answers 200, and accepts nothing."""
    async with serve(fake(lambda _: sglang(steps=25, accepted=0))) as engine:
        result = await run_gate(engine.url)
    assert (result.verdict, result.exit_code) == (Verdict.WARN, 3)
    assert "accept length 1.00 after 1250 tokens: speculation is broken" in result.reasons[0]


async def test_some_requests_fail(serve: Any, fake: Any, sglang: Make) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any] | web.Response:
        return web.Response(status=500, text="boom") if class_of(body) == "chinese" else sglang()

    async with serve(fake(answer)) as engine:
        result = await run_gate(engine.url)
    assert len(result.failures) == 10
    assert result.failures["chinese-01"] == "GateError: 500 boom"
    assert result.verdict is Verdict.WARN


@pytest.mark.parametrize("answer", [web.Response(text="[]"), web.Response(text="{}"), web.Response(status=404)])
async def test_all_requests_fail(serve: Any, fake: Any, answer: web.Response) -> None:
    def again(_: dict[str, Any]) -> web.Response:
        return web.Response(status=answer.status, text=answer.text)

    async with serve(fake(again)) as engine:
        with pytest.raises(GateError, match="every request failed"):
            await run_gate(engine.url)


async def test_a_model_that_is_not_listed(serve: Any, fake: Any, sglang: Make) -> None:
    async with serve(fake(lambda _: sglang())) as engine:
        with pytest.raises(GateError, match=r"--model nope: .* does not list it; pass toy"):
            await run_gate(engine.url, model="nope")
    assert engine.asked == []


async def test_no_scheme() -> None:
    with pytest.raises(GateError, match=r"the scheme is missing; pass http://127\.0\.0\.1:9"):
        await run_gate("127.0.0.1:9")


async def test_no_engine() -> None:
    with pytest.raises(GateError, match=r"--url http://127\.0\.0\.1:9: cannot be reached .*; start the engine first"):
        await run_gate("http://127.0.0.1:9")


async def test_no_model_is_listed(serve: Any, fake: Any, sglang: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: Any, _request: web.Request) -> web.Response:
        return web.json_response({"data": []})

    monkeypatch.setattr(fake, "models", nothing)
    async with serve(fake(lambda _: sglang())) as engine:
        with pytest.raises(GateError, match="lists no model"):
            await run_gate(engine.url)


async def test_result_file(serve: Any, fake: Any, sglang: Make, tmp_path: Path) -> None:
    settings = GateSettings(expected={"code": 3.5})
    async with serve(fake(lambda _: sglang())) as engine:
        result = await run_gate(engine.url, settings)
    path = tmp_path / "new" / "gate.json"
    write_json(result.as_json(), path)
    value = json.loads(path.read_text())
    assert (value["kind"], value["verdict"], value["overall"]["accept_length"]) == ("drafter-gate", "warn", 2.5)
    assert value["reasons"] == ["code: accept length 2.50, published 3.50"]
    assert value["classes"]["code"] == {
        "prompts": 12,
        "requests": 12,
        "completion_tokens": 300,
        "accept_length": 2.5,
        "steps": 120,
        "accepted": 180,
        "proposed": 360,
    }
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["gate.json"]
    assert gate_table(result).row_count == 8
