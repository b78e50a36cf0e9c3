"""Sources in their forms: what is read, and the one line for what is not."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.files import found_files, read_rows
from k25serve.drafters.training.data.formats import read_row
from k25serve.drafters.training.data.labels import label_of
from k25serve.drafters.training.data.options import Format

SHAREGPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]}
BLEND = SHAREGPT | {"source": "meta-math/MetaMathQA"}
CALL = {"id": "functions.w:0", "type": "function", "function": {"name": "w", "arguments": '{"city": "Rome"}'}}
OPENAI: dict[str, Any] = {
    "model": "k",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"role": "assistant", "content": None, "reasoning": "I call it.", "tool_calls": [CALL], "refusal": None},
        {"role": "tool", "tool_call_id": "functions.w:0", "content": "sunny"},
        {"role": "assistant", "content": "<think>\nIt has answered.\n</think>\n\nSunny."},
    ],
    "tools": [{"type": "function", "function": {"name": "w"}}],
}


def test_openai() -> None:
    form, conversation = read_row(OPENAI, Format.AUTO)
    assert form is Format.OPENAI
    _, asked, called, told, answered = conversation.messages
    assert asked["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert called == {"role": "assistant", "content": "", "reasoning_content": "I call it.", "tool_calls": [CALL]}
    assert told == {"role": "tool", "content": "sunny", "tool_call_id": "functions.w:0"}
    assert answered == {"role": "assistant", "content": "Sunny.", "reasoning_content": "It has answered."}
    assert (len(conversation.tools), label_of(conversation)) == (1, "tool")


def test_weights_of_fine_tuning_files() -> None:
    said = [{"role": "user", "content": "?"}, *({"role": "assistant", "content": "!", "weight": w} for w in (0, 1))]
    asked, unlearnt, learnt = read_row({"messages": said}, Format.AUTO)[1].messages
    assert (asked.get("weight"), unlearnt.get("weight"), learnt.get("weight")) == (None, 0, None)


def test_sharegpt_and_perfectblend() -> None:
    form, conversation = read_row(SHAREGPT, Format.AUTO)
    assert form is Format.SHAREGPT
    assert conversation.messages == ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"})
    assert label_of(conversation) == "chat"
    form, conversation = read_row(BLEND, Format.AUTO)
    assert (form, label_of(conversation)) == (Format.PERFECTBLEND, "math")


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("theblackcat102/evol-codealpaca-v1", "code"),
        ("HuggingFaceH4/orca-math-word-problems-200k", "math"),
        ("openbmb/UltraInteract_sft", "math"),
        ("HuggingFaceH4/ultrachat_200k", "chat"),
        ("mlabonne/lmsys-arena-human-preference-55k-sharegpt", "chat"),
        ("Post-training-Data-Flywheel/AutoIF-instruct-61k", "prose"),
        ("somebody/else", "chat"),
    ],
)
def test_labels_by_source(source: str, label: str) -> None:
    assert label_of(read_row(BLEND | {"source": source}, Format.AUTO)[1]) == label


@pytest.mark.parametrize(
    ("answer", "label"),
    [("```python\nx\n```", "code"), ("so \\boxed{3}", "math"), ("a word " * 150, "prose"), ("Hello!", "chat")],
)
def test_labels_by_content(answer: str, label: str) -> None:
    row = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]}
    assert label_of(read_row(row, Format.AUTO)[1]) == label
    assert label_of(read_row(row | {"label": "mine"}, Format.AUTO)[1]) == "mine"


def test_identity() -> None:
    """White space, key order and call ids don't make another conversation; a word does."""
    one = read_row(OPENAI, Format.AUTO)[1]
    other = json.loads(json.dumps(OPENAI).replace("functions.w:0", "call_9").replace('"sunny"', '" sunny\\n"'))
    other["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{ "city" : "Rome" }'
    assert read_row(other, Format.AUTO)[1].id == one.id
    other["messages"][-1]["content"] += "!"
    assert read_row(other, Format.AUTO)[1].id != one.id
    assert read_row(other, Format.AUTO)[1].opening == one.opening


@pytest.mark.parametrize(
    ("row", "form", "told"),
    [
        ([], Format.AUTO, "row is []; an object belongs there"),
        ({"text": "x"}, Format.AUTO, "row is text; its keys should include messages or conversations"),
        ({"messages": []}, Format.AUTO, "messages is []; a list of at least one message belongs there"),
        ({"messages": ["x"]}, Format.AUTO, "messages[0] is x; an object belongs there"),
        ({"messages": [{"role": "robot"}]}, Format.AUTO, "messages[0].role is robot; it must be one of system,"),
        ({"messages": [{"role": "user", "content": 3}]}, Format.AUTO, "messages[0].content is 3; a string belongs"),
        ({"messages": [{"role": "user", "content": [3]}]}, Format.AUTO, "messages[0].content[0] is 3;"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, Format.AUTO, "messages[0].tool_calls[0] is {};"),
        ({"messages": [{"role": "assistant", "tool_calls": 3}]}, Format.AUTO, "messages[0].tool_calls is 3;"),
        ({"messages": [{"role": "assistant", "function_call": {}}], "tools": 3}, Format.AUTO, "tools is 3;"),
        ({"messages": [{"role": "assistant", "function_call": {"name": "f"}}]}, Format.AUTO, "write it as tool_calls"),
        ({"messages": [{"role": "assistant", "weight": 2}]}, Format.AUTO, "messages[0].weight is 2; it must be 0"),
        ({"conversations": [{"from": "dog"}]}, Format.AUTO, "conversations[0].from is dog; it must be one of system"),
        ({"conversations": [{"from": ["gpt"]}]}, Format.AUTO, "conversations[0].from is ['gpt'];"),
        (SHAREGPT, Format.PERFECTBLEND, "source is None; the name of a data set belongs there"),
        (SHAREGPT, Format.OPENAI, "messages is None; a list of at least one message belongs there"),
    ],
)
def test_bad_rows(row: Any, form: Format, told: str) -> None:
    with pytest.raises(BadRow) as error:
        read_row(row, form)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_files(tmp_path: Path) -> None:
    """The same rows from every kind of file; blank lines count as lines."""
    rows = [SHAREGPT, BLEND]
    lines = "".join(json.dumps(row) + "\n\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "c.json").write_text(json.dumps(rows))
    (tmp_path / "d.json").write_text(lines)
    (tmp_path / "ignored.txt").write_text("x")
    pq.write_table(
        pa.Table.from_pylist([row | {"source": row.get("source", "x")} for row in rows]), tmp_path / "e.parquet"
    )
    found = {path.name: list(read_rows(path)) for path in found_files([tmp_path])}
    assert sorted(found) == ["a.jsonl", "b.jsonl.gz", "c.json", "d.json", "e.parquet"]
    assert [number for number, _ in found["a.jsonl"]] == [1, 3]
    assert [row for _, row in found["a.jsonl"]] == rows
    assert found["a.jsonl"] == found["b.jsonl.gz"] == found["d.json"]
    assert found["c.json"] == [(1, SHAREGPT), (2, BLEND)]
    assert [row["conversations"] for _, row in found["e.parquet"]] == [SHAREGPT["conversations"]] * 2


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.txt", b"", "unknown ending; give a .jsonl or"),
        ("a.parquet", b"PAR1", "not a whole Parquet file"),
        ("a.jsonl.gz", b"\x1f\x8b", "not a whole gzip file"),
        ("a.jsonl.gz", b"plain", "not a whole gzip file"),
        ("a.json", b"[1,", "not valid JSON"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TrainingError, match=told) as error:
        list(read_rows(found_files([tmp_path / name])[0]))
    assert "\n" not in str(error.value)
    with pytest.raises(TrainingError, match="no such file"):
        found_files([tmp_path / "none.jsonl"])


def test_lines_that_are_no_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{"a": \n\xff\n')
    (_, good), (second, bad), (third, worse) = read_rows(tmp_path / "a.jsonl")
    assert (good, second, third) == ({"a": 1}, 2, 3)
    assert isinstance(bad, BadRow)
    assert isinstance(worse, BadRow)
    assert "line is {" in str(bad)
