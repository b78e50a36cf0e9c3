"""The served model's own answers: turn by turn, kept as they come, tried again, and never asked for twice."""

import asyncio
import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from aiohttp import web

from k25serve.drafters.checkpoint.errors import DrafterError, TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.data import regenerate as module
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.data.prepare import prepare
from k25serve.drafters.training.data.report import DataReport
from k25serve.drafters.training.progress import Silent

CALL = {"id": "functions.w:0", "type": "function", "function": {"name": "w", "arguments": "{}"}}
NEW_CALL = CALL | {"id": "functions.w:7"}
TWO_TURNS = {
    "messages": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "old", "reasoning_content": "old thought"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "old too"},
        {"role": "user", "content": "left over"},
    ]
}
WITH_CALL = {
    "messages": [
        {"role": "user", "content": "call"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "functions.w:0", "content": "sunny"},
        {"role": "assistant", "content": "old"},
    ],
    "tools": [{"type": "function", "function": {"name": "w"}}],
}


def completion(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": ""} | message, "finish_reason": finish}]}


def answer(body: dict[str, Any]) -> Any:
    """New content for each question, reasoning where it is asked for."""
    last = body["messages"][-1]
    if last["content"] == "call":
        return completion({"content": None, "tool_calls": [NEW_CALL]}, "tool_calls")
    thought = {"reasoning_content": "new thought"} if body["chat_template_kwargs"]["thinking"] else {}
    return completion({"content": f"new {last['content']}"} | thought)


async def run(out: Path, path: Path, url: str, regenerate: dict[str, Any] | None = None, **more: Any) -> DataReport:
    asked = {"url": url, "retries": 2} | (regenerate or {})
    options = DataOptions.model_validate({"inputs": (path,), "held_out": 0.0, "regenerate": asked} | more)
    return await asyncio.to_thread(prepare, options, TARGET, out, Silent())


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.001)


async def test_answers_are_replaced_in_order(tmp_path: Path, write_rows: Any, serve: Any, tokenizer: Any) -> None:
    async with serve(answer) as engine:
        report = await run(tmp_path / "a", write_rows([TWO_TURNS, WITH_CALL]), engine.url + "/v1")
    assert report.counts["answers_asked_for"] == len(engine.asked) == 4
    by_question = {body["messages"][-1]["content"]: body for body in engine.asked}
    second = by_question["two"]
    assert second["messages"][1] == {"role": "assistant", "content": "new one", "reasoning_content": "new thought"}
    assert [body["chat_template_kwargs"]["thinking"] for body in (by_question["one"], second)] == [True, False]
    assert (second["model"], second["temperature"], second["max_tokens"]) == ("toy", 1.0, 4096)
    told = by_question["sunny"]
    assert told["messages"][1]["tool_calls"] == [NEW_CALL]
    assert told["messages"][2]["tool_call_id"] == "functions.w:7"
    assert told["tools"] == WITH_CALL["tools"]
    texts = [tokenizer.decode(row["input_ids"]) for row in datasets.load_from_disk(str(tmp_path / "a/train"))]
    assert any("<think>new thought</think>new one<|im_end|>" in text and "new two" in text for text in texts)
    assert any("functions.w:7" in text and text.endswith("</think>new sunny<|im_end|>") for text in texts)
    assert not any("old" in text or "left over" in text for text in texts)


async def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, write_rows: Any, serve: Any) -> None:
    path, out = write_rows([TWO_TURNS, WITH_CALL]), tmp_path / "a"

    def first_only(body: dict[str, Any]) -> Any:
        return answer(body) if len(body["messages"]) == 1 else web.Response(status=503)

    async with serve(first_only) as engine:
        with pytest.raises(TrainingError, match=r"2 of 2 conversations were not answered .*503.*run the same command"):
            await run(out, path, engine.url)
        engine.answer = answer
        assert not (out / "report.json").exists()
        with (out / "answers.jsonl").open("ab") as file:
            file.write(b'{"key": "half')
        before = len(engine.asked)
        report = await run(out, path, engine.url)
        assert len(engine.asked) - before == 2
        assert (report.counts["answers_asked_for"], report.counts["answers_kept_from_before"]) == (2, 2)
        assert await run(out, path, engine.url) == report
        assert len(engine.asked) - before == 2
    assert [set(json.loads(line)) for line in (out / "answers.jsonl").read_text().splitlines()] == [
        {"key", "message", "cut"}
    ] * 4


async def test_what_passes_is_tried_again_and_what_does_not_is_told(
    tmp_path: Path, write_rows: Any, serve: Any
) -> None:
    failures = iter([web.Response(status=429, headers={"Retry-After": "0"}), web.Response(status=500)])

    async with serve(lambda body: next(failures, None) or answer(body)) as engine:
        await run(tmp_path / "a", write_rows([TWO_TURNS]), engine.url)
        assert len(engine.asked) == 4
        engine.asked.clear()
        engine.answer = lambda body: web.Response(status=400, text="no") if "one" in str(body) else answer(body)
        report = await run(tmp_path / "b", write_rows([TWO_TURNS, WITH_CALL]), engine.url, skip_bad=True)
        assert report.dropped == {"not answered": 1}
        assert sum("one" in str(body) for body in engine.asked) == 1
        engine.answer = lambda body: {"choices": []}
        with pytest.raises(TrainingError, match="no chat completion"):
            await run(tmp_path / "c", write_rows([TWO_TURNS]), engine.url)


async def test_answers_that_end_a_conversation(tmp_path: Path, write_rows: Any, serve: Any) -> None:
    """One cut at max_tokens is not learnt from; one with other calls is, but what followed the old calls is not."""

    def cut_or_other(body: dict[str, Any]) -> Any:
        last = body["messages"][-1]["content"]
        if last == "two":
            return completion({"content": "endless"}, "length")
        return completion({"content": "no call"}) if last == "call" else answer(body)

    only_cut = {"messages": [{"role": "user", "content": "two"}, {"role": "assistant", "content": "x"}]}
    async with serve(cut_or_other) as engine:
        report = await run(tmp_path / "a", write_rows([TWO_TURNS, WITH_CALL, only_cut]), engine.url)
    assert report.dropped == {"answer cut at max_tokens": 1}
    assert report.counts["conversations_cut_at_max_tokens"] == 2
    assert report.counts["conversations_cut_at_other_calls"] == 1
    assert report.train.conversations == 2
    assert len(engine.asked) == 4


async def test_at_most_so_many_at_a_time(tmp_path: Path, write_rows: Any, serve: Any) -> None:
    rows = [
        {"messages": [{"role": "user", "content": str(n)}, {"role": "assistant", "content": "x"}]} for n in range(12)
    ]
    async with serve(answer) as engine:
        await run(tmp_path / "a", write_rows(rows), engine.url, {"concurrency": 3, "temperature": 0.5})
    assert engine.most_at_once == 3
    assert {body["temperature"] for body in engine.asked} == {0.5}


async def test_no_engine(tmp_path: Path, write_rows: Any) -> None:
    with pytest.raises(DrafterError, match="cannot be reached"):
        await run(tmp_path / "a", write_rows([TWO_TURNS]), "http://127.0.0.1:9")
    with pytest.raises(ValueError, match="the scheme is missing"):
        DataOptions.model_validate({"packaged": 1, "regenerate": {"url": "127.0.0.1:9"}})
