"""`k25serve drafter train data`: what it prints, and the one line for a mistake."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.cli import app

CHAT = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["data", "--target", str(TARGET), *map(str, words)])


def test_tables_and_json(tmp_path: Path, write_rows: Any) -> None:
    words = ("--input", write_rows([CHAT, CHAT]), "--out", tmp_path / "a", "--held-out", "0")
    shown = call(*words)
    assert shown.exit_code == 0, shown.output
    assert "Class mix" in shown.output
    assert "duplicate" in shown.output
    assert f"written: {tmp_path / 'a'}" in shown.output
    again = call(*words, "--json")
    assert json.loads(again.stdout)["train"]["rows"] == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "no source; give inputs, or a number of packaged chats"),
        (("--input", "none.jsonl"), "--input none.jsonl: no such file"),
        (("--packaged", "1", "--regenerate", "localhost:1"), "--regenerate = localhost:1: the scheme is missing"),
        (("--packaged", "1", "--temperature", "0.5"), "--temperature: says how to regenerate; add --regenerate URL"),
        (("--packaged", "1", "--target", "none"), "--target none: no such folder"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    result = call("--out", tmp_path / "a", *words)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert told in result.stderr
    assert not (tmp_path / "a").exists()


def test_a_bad_row_is_one_line_and_can_be_skipped(tmp_path: Path, write_rows: Any) -> None:
    words = ("--input", write_rows([CHAT, {"messages": 3}]), "--out", tmp_path / "a", "--held-out", "0")
    result = call(*words)
    assert result.exit_code == 2
    assert (
        "rows.jsonl:2: messages is 3; a list of at least one message belongs there; or pass --skip-bad" in result.stderr
    )
    assert call(*words, "--skip-bad").exit_code == 0
