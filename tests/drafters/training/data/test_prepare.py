"""The whole step: the same inputs give the same data, and what is there is neither done twice nor lost."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.data.prepare import prepare
from k25serve.drafters.training.data.report import DataReport
from k25serve.drafters.training.progress import Silent


def chat(number: int, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": f"What is {number} + 1?"},
        {"role": "assistant", "content": str(number + 1), "reasoning_content": "I add." if number % 2 else ""},
    ]
    return {"messages": messages} | more


ROWS = [chat(number, label="math" if number % 3 else "chat") for number in range(60)]


def run(out: Path, *inputs: Path, **options: Any) -> DataReport:
    return prepare(DataOptions(inputs=inputs, **({"held_out": 0.25} | options)), TARGET, out, Silent())


def ids(out: Path, split: str) -> list[str]:
    return list(datasets.load_from_disk(str(out / split))["id"])


def test_columns_and_report(tmp_path: Path, write_rows: Any, tokenizer: Any) -> None:
    report = run(tmp_path / "data", write_rows(ROWS))
    train = datasets.load_from_disk(str(tmp_path / "data/train"))
    assert train.column_names == ["input_ids", "loss_mask", "seq_len", "label", "id"]
    assert str(train.features["input_ids"].feature.dtype) == "int64"
    for row in train:
        assert len(row["input_ids"]) == len(row["loss_mask"]) == row["seq_len"]
        written = [token for token, mask in zip(row["input_ids"], row["loss_mask"], strict=True) if mask]
        assert tokenizer.decode(written).endswith("<|im_end|>")
    assert (report.train.rows, report.train.rows + report.held_out.rows) == (len(train), len(ROWS))
    assert report.train.tokens == sum(train["seq_len"])
    assert report.train.supervised_tokens == sum(sum(mask) for mask in train["loss_mask"])
    assert {name: mix.rows for name, mix in report.train.classes.items()} == {
        name: list(train["label"]).count(name) for name in ("chat", "math")
    }
    assert sum(report.train.lengths.values()) == len(train)
    assert (report.counts["turns_thinking"], report.counts["turns_without_thinking"]) == (30, 30)
    assert DataReport.model_validate_json((tmp_path / "data/report.json").read_bytes()) == report
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["held_out", "report.json", "train"]


@pytest.mark.full
def test_worker_processes_give_the_same_data(tmp_path: Path, write_rows: Any) -> None:
    first, again = (run(tmp_path / str(workers), write_rows(ROWS), workers=workers) for workers in (1, 2))
    assert first == again


def test_the_same_inputs_give_the_same_data_in_any_order(tmp_path: Path, write_rows: Any) -> None:
    first = run(tmp_path / "a", write_rows(ROWS))
    again = run(tmp_path / "b", write_rows(ROWS[::-1], "reversed.jsonl"))
    assert (first.train.sha256, first.held_out.sha256) == (again.train.sha256, again.held_out.sha256)
    assert ids(tmp_path / "a", "train") == ids(tmp_path / "b", "train")
    other = run(tmp_path / "c", write_rows(ROWS), seed=1)
    assert other.train.sha256 != first.train.sha256
    assert sorted(ids(tmp_path / "c", "held_out")) == sorted(ids(tmp_path / "a", "held_out"))


def test_added_data_moves_nothing_between_the_splits(tmp_path: Path, write_rows: Any) -> None:
    run(tmp_path / "a", write_rows(ROWS))
    run(tmp_path / "b", write_rows([*ROWS, *(chat(number) for number in range(100, 160))], "more.jsonl"))
    for split in ("train", "held_out"):
        before, after = ids(tmp_path / "a", split), ids(tmp_path / "b", split)
        assert before == [one for one in after if one in set(before)]
        assert len(after) > len(before)


def test_one_question_is_never_in_both_splits(tmp_path: Path, write_rows: Any) -> None:
    rows = [chat(number // 2) for number in range(80)]
    for number, row in enumerate(rows):
        row["messages"][-1]["content"] += "." * (number % 2)
    run(tmp_path / "a", write_rows(rows))
    asked = []
    for split in ("train", "held_out"):
        loaded = datasets.load_from_disk(str(tmp_path / "a" / split))
        asked.append({tuple(row["input_ids"][: row["loss_mask"].index(1)]) for row in loaded})
    assert len(asked[1]) > 3
    assert not asked[0] & asked[1]


def test_what_is_left_out_is_counted(tmp_path: Path, write_rows: Any) -> None:
    image = [{"type": "image_url", "image_url": {"url": "data:"}}]
    rows = [
        *ROWS,
        ROWS[0],
        {"messages": [{"role": "user", "content": "unanswered"}]},
        {"messages": [{"role": "user", "content": image}, *ROWS[1]["messages"]]},
        {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": ""}]},
        {"messages": [{"role": "user", "content": "word " * 100}, {"role": "assistant", "content": "x"}]},
        {"messages": [{"role": "robot"}]},
    ]
    report = run(tmp_path / "a", write_rows(rows), skip_bad=True, max_length=64)
    assert report.dropped == {
        "answers beyond max_length": 1,
        "bad row: role": 1,
        "duplicate": 1,
        "images or other media": 1,
        "no answer": 1,
        "nothing to supervise": 1,
    }
    assert report.train.conversations + report.held_out.conversations == len(ROWS)
    few = run(tmp_path / "b", write_rows(ROWS), max_conversations=10)
    assert few.train.rows + few.held_out.rows == 10
    assert set(ids(tmp_path / "b", "train")) < set(ids(tmp_path / "a", "train"))


def test_a_bad_row_stops_with_its_place(tmp_path: Path, write_rows: Any) -> None:
    path = write_rows([*ROWS[:3], {"messages": [{"role": "robot"}]}])
    with pytest.raises(TrainingError) as error:
        run(tmp_path / "a", path)
    assert str(error.value).startswith(f"{path}:4: messages[0].role is robot; it must be one of system")
    assert not (tmp_path / "a/report.json").exists()


def test_a_finished_folder_is_not_made_again_and_not_replaced(tmp_path: Path, write_rows: Any) -> None:
    out, path = tmp_path / "a", write_rows(ROWS)
    first = run(out, path)
    made = (out / "train/state.json").stat().st_mtime_ns
    assert run(out, path, workers=3) == first
    assert (out / "train/state.json").stat().st_mtime_ns == made
    with pytest.raises(TrainingError, match=r"holds data with other settings \(max_length 4096, asked for: 32\)"):
        run(out, path, max_length=32)
    with pytest.raises(TrainingError, match=r"other settings \(input files"):
        run(out, write_rows(ROWS[1:]))
    (out / "report.json").write_text("{}")
    with pytest.raises(TrainingError, match="not a report of this step"):
        run(out, path)


def test_a_killed_run_leaves_nothing_that_looks_finished(
    tmp_path: Path, write_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two renames: the next run puts both splits right."""
    out, path = tmp_path / "a", write_rows(ROWS)

    class Killed(BaseException):
        pass

    def killed_at_held_out(self: Path, name: Path) -> Path:
        if name.name == "held_out":
            raise Killed
        self.replace(name)
        return name

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed_at_held_out)
        with pytest.raises(Killed):
            run(out, path)
    assert not (out / "report.json").exists()
    assert (out / "train").exists()
    expected = run(tmp_path / "b", path)
    assert run(out, path) == expected
    assert sorted(one.name for one in out.iterdir()) == ["held_out", "report.json", "train"]


def test_no_held_out_share(tmp_path: Path, write_rows: Any) -> None:
    report = run(tmp_path / "a", write_rows(ROWS), held_out=0.0)
    assert (report.train.rows, report.held_out.rows) == (60, 0)
    assert ids(tmp_path / "a", "held_out") == []


def test_nothing_left(tmp_path: Path, write_rows: Any) -> None:
    with pytest.raises(TrainingError, match="no conversation is left"):
        run(tmp_path / "a", write_rows([{"messages": [{"role": "user", "content": "?"}]}]))
    with pytest.raises(TrainingError, match="nothing to train on is left"):
        run(tmp_path / "a", write_rows(ROWS), max_length=2)


def test_what_the_report_says_of_itself(tmp_path: Path, write_rows: Any) -> None:
    path = write_rows(ROWS)
    run(tmp_path / "a", path)
    report = json.loads((tmp_path / "a/report.json").read_text())
    (read,) = report["inputs"]
    assert (read["file"], read["rows"], len(read["sha256"])) == (str(path), {"openai": 60}, 64)
    assert report["settings"]["max_length"] == 4096
    assert set(report["target"]) == {"vocabulary", "chat_template"}
