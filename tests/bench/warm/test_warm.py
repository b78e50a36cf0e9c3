"""The story's own work, without its engine: chats, settings, what goes on, what is told."""

from pathlib import Path

import pytest

from k25serve.bench.warm import story
from k25serve.bench.warm.__main__ import main, table
from k25serve.bench.warm.chats import write_chats
from k25serve.bench.warm.options import SCRATCH, WARM, Places, StoryOptions, gate_options, scratch_sets, warm_sets
from k25serve.drafters.training.data.files import read_rows
from k25serve.drafters.training.data.formats import Format, read_row
from k25serve.drafters.training.run.load import load_config


def test_chats_are_what_the_data_step_reads(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    count = write_chats(path, 60)
    rows = [read_row(row, Format.AUTO) for _, row in read_rows(path)]
    assert 50 <= count == len(rows) <= 60
    assert {form for form, _ in rows} == {Format.OPENAI}
    assert len({conversation.label for _, conversation in rows}) > 2


def test_both_trainings_differ_in_where_they_begin_alone(tmp_path: Path) -> None:
    options, places = StoryOptions(steps=1, chats=9, epochs=2, prompts=5), Places(tmp_path)
    warm = load_config(WARM, warm_sets(options, places))
    scratch = load_config(SCRATCH, scratch_sets(options, places))
    assert warm.target == scratch.target == str(places.target)
    assert warm.data == scratch.data
    assert (warm.fit.epochs, warm.fit.max_minutes) == (scratch.fit.epochs, scratch.fit.max_minutes) == (2, None)
    assert warm.fit.tokens_per_batch == scratch.fit.tokens_per_batch
    assert (warm.fit.init.drafter, scratch.fit.init.drafter) == (places.adapted, None)
    assert gate_options(options, places).prompts == 5
    assert gate_options(options, places).baseline == str(places.adapted)
    assert scratch.gate is not None
    assert scratch.gate.baseline is None


def test_a_begun_folder_takes_the_same_options_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "options.json").write_text('{"steps": 60, "chats": 1200, "epochs": 3, "prompts": 9}')
    assert main(["--out", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'prompts': 9" in line
    assert "give those, or another --out" in line


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    assert main(["--out", str(tmp_path)]) == 2
    assert "is not empty, and not begun by this command" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_step_that_fails_ends_the_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(story, "FURTHER", (*story.PYTHON, "k25serve.drafters.tiny.no_such_module"))
    assert main(["--out", str(tmp_path / "out")]) == 2
    assert "mend it, then the same command goes on" in capsys.readouterr().err
    assert not (tmp_path / "out" / "chats.jsonl").exists()


def test_the_table_names_every_arm_and_difference() -> None:
    arms = {name: {"all": {"accept_length": value}} for name, value in (("adapted", 1.5), ("warm", 2.0))}
    told = table({"arms": arms, "differences": {"warm - adapted": {"low": 0.25, "middle": 0.5, "high": 0.75}}})
    assert "warm - adapted: +0.500 (95 % +0.250 to +0.750)" in told
    assert "adapted   1.500" in told


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "ten"])
def test_a_wrong_number_is_one_line(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--out", "anywhere", "--chats", value])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--chats: {value!r} is not a whole number from 1" in line
