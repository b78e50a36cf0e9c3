"""The packaged prompts are fifty, of five classes, and a set that is wrong is refused."""

from collections import Counter
from pathlib import Path

import pytest

from k25serve.drafters.checkpoint import GateError
from k25serve.drafters.gate import load_prompts
from k25serve.drafters.gate.prompts import FILE, prompts_sha256


def test_fifty_of_five_classes() -> None:
    prompts = load_prompts().prompts
    assert Counter(prompt.prompt_class for prompt in prompts) == {
        "code": 12,
        "maths": 10,
        "chat": 10,
        "tools": 8,
        "chinese": 10,
    }
    assert len({prompt.user for prompt in prompts}) == 50
    for name in ("code", "maths", "chat", "tools", "chinese"):
        assert {prompt.thinking for prompt in prompts if prompt.prompt_class == name} == {True, False}
    assert all(bool(prompt.tools) == (prompt.prompt_class == "tools") for prompt in prompts)
    assert len(prompts_sha256()) == 64


def test_tools_in_openai_form() -> None:
    every = load_prompts()
    prompt = next(prompt for prompt in every.prompts if prompt.id == "tools-02")
    first, second = every.functions(prompt)
    assert (first["type"], first["function"]["name"], second["function"]["name"]) == (
        "function",
        "convert_currency",
        "get_weather",
    )
    assert first["function"]["parameters"]["required"] == ["amount", "source", "target"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("id: code-02", "id: code-01", "two prompts have the same id"),
        ("tools: [run_sql]", "tools: [run]", "do not go together"),
        ("class: code", "class: poetry", "poetry|prompt_class"),
        ("prompts:", "prompts: [", "not a set of prompts"),
    ],
)
def test_a_set_that_is_wrong(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = FILE.read_text()
    assert old in text
    (tmp_path / "p.yaml").write_text(text.replace(old, new))
    with pytest.raises(GateError, match=told):
        load_prompts(tmp_path / "p.yaml")
