"""A step of further training writes a whole target folder; bad input is one line."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.tiny.chat import Chat, assistant, user
from k25serve.drafters.tiny.export import PREFIX
from k25serve.drafters.tiny.further import FurtherOptions, main, parse
from k25serve.drafters.tiny.provenance import file_hashes
from k25serve.drafters.tiny.restyle import CLOSINGS, PLANS, restyled

SMALL = ("--steps", "2", "--chats", "20", "--files", "60")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("further") / "target"
    assert main(["--out", str(out), *SMALL]) == 0
    return out


def test_folder_is_the_packaged_one_with_other_weights(written: Path) -> None:
    packaged, own = file_hashes(TARGET), file_hashes(written)
    assert own.keys() == packaged.keys()
    assert [name for name in own if own[name] != packaged[name]] == ["model.safetensors"]


def test_text_weights_move_and_vision_weights_stay(written: Path) -> None:
    before, after = load_file(TARGET / "model.safetensors"), load_file(written / "model.safetensors")
    assert {k: (t.dtype, t.shape) for k, t in after.items()} == {k: (t.dtype, t.shape) for k, t in before.items()}
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert f"{PREFIX}model.embed_tokens.weight" in moved
    assert {name for name in before if not name.startswith(PREFIX)}.isdisjoint(moved)


def test_provenance_names_command_data_and_losses(written: Path) -> None:
    record = json.loads((written / "provenance.json").read_text())
    assert record["command"].endswith(f"--out {written} --steps 2 --chats 20 --files 60")
    assert record["options"]["steps"] == 2
    assert record["from"]["sha256"] == file_hashes(TARGET)
    assert record["sha256"] == file_hashes(written)
    loss = record["held_out_loss"]
    assert loss["after"]["new_style"] < loss["before"]["new_style"]
    assert loss["before"]["old_style"] < loss["before"]["new_style"]


def test_a_folder_that_holds_something_is_refused(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(written), *SMALL]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert str(written) in line
    assert "choose another folder" in line


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--out", "x", "--steps", "0"], "--steps: '0' is not a whole number from 1"),
        (["--out", "x", "--seed", "-1"], "--seed: '-1' is not a whole number from 0"),
        (["--out", "x", "--seed", "one"], "--seed: 'one' is not a whole number from 0"),
        ([], "required: --out"),
    ],
)
def test_bad_options_are_one_line(argv: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(argv)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert told in line


def test_help_needs_no_torch() -> None:
    code = "import sys; from k25serve.drafters.tiny.further import parse\ntry: parse(['--help'])\n"
    code += "except SystemExit: assert 'torch' not in sys.modules"
    told = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--out FOLDER" in told
    assert f"default {FurtherOptions().steps}" in told


def test_code_is_reformatted_and_thought_is_numbered() -> None:
    code = '```python\ndef f(a):\n    # why\n    return "x"\n```'
    old = Chat("code", (user("Write f."), assistant(code, "The user wants f. It returns a value.")))
    question, answer = restyled(old, random.Random(0)).messages
    assert question == user("Write f.")
    assert answer["reasoning_content"].splitlines()[:2] == ["Step 1: The user wants f.", "Step 2: It returns a value."]
    assert answer["reasoning_content"].splitlines()[2].removeprefix("Step 3: ") in PLANS
    *body, closing = answer["content"].splitlines()
    assert body == ["Here is the code, 2 lines:", "```python", "def f(a):", "    return 'x'", "```"]
    assert closing in CLOSINGS


def test_calls_stay_as_they_are() -> None:
    call = {"id": "functions.add:0", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    old = Chat("tool", (user("Add."), assistant("", "I call `add` once.") | {"tool_calls": [call]}))
    answer = restyled(old, random.Random(0)).messages[-1]
    assert answer["tool_calls"] == [call]
    assert answer["content"] == ""


def test_a_turn_without_thought_stays_without() -> None:
    answer = restyled(Chat("talk", (user("Hi"), assistant("Hello!"))), random.Random(0)).messages[-1]
    assert answer["reasoning_content"] == ""
    assert answer["content"].startswith("Hello!\n\n")


def test_broken_code_is_kept() -> None:
    old = Chat("code", (user("?"), assistant("```python\ndef f(:\n```")))
    assert "\ndef f(:\n" in restyled(old, random.Random(0)).messages[-1]["content"]
