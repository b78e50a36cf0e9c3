"""The vocab step: https://github.com/sgl-project/SpecForge/pull/76 (too few tokens seen), coverage, what it writes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from k25serve.drafters.checkpoint.errors import AdaptError, TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.cli import app
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.data.prepare import prepare
from k25serve.drafters.training.progress import Silent
from k25serve.drafters.training.vocab.build import build
from k25serve.drafters.training.vocab.options import VocabOptions
from k25serve.drafters.training.vocab.report import VocabReport
from k25serve.drafters.vocab import read_counts

VOCAB = 2048


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vocab")
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Question {n}"},
                {"role": "assistant", "content": f"Answer {n * n}"},
            ],
            "label": "math" if n % 2 else "chat",
        }
        for n in range(80)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare(DataOptions(inputs=(folder / "rows.jsonl",), held_out=0.25), TARGET, folder / "data", Silent())
    return folder / "data"


def run(data: Path, out: Path, size: int | None) -> VocabReport:
    return build(VocabOptions(draft_vocab_size=size), data, TARGET, out, Silent())


def count_tokens(data: Path, split: str) -> Counter[int]:
    """How often each id is one that the assistant writes."""
    import datasets

    rows = datasets.load_from_disk(str(data / split))
    return Counter(i for row in rows for i, mine in zip(row["input_ids"], row["loss_mask"], strict=True) if mine)


def test_maps_are_those_of_the_counts(data: Path, tmp_path: Path) -> None:
    """More places than tokens that occur: filled up with the lowest ids, ascending, special tokens kept."""
    report = run(data, tmp_path / "v", 300)
    maps = load_file(tmp_path / "v/vocab.safetensors")
    counts = count_tokens(data, "train")
    kept = set(report.always.values()) | set(counts)
    expected = sorted(kept | set([token for token in range(VOCAB) if token not in kept][: 300 - len(kept)]))
    hot = maps["d2t"] + torch.arange(300)
    assert hot.tolist() == expected == maps["t2d"].nonzero().flatten().tolist()
    assert report.seen == len(counts) < 300
    assert {"<|im_end|>", "</think>", "<think>", "<|tool_call_begin|>"} <= set(report.always)
    assert read_counts(str(tmp_path / "v/counts.json"), VOCAB) == {
        token: count for token, count in counts.items() if count
    }


def test_coverage_by_class(data: Path, tmp_path: Path) -> None:
    report = run(data, tmp_path / "v", 20)
    t2d = load_file(tmp_path / "v/vocab.safetensors")["t2d"]
    for split in ("train", "held_out"):
        counts = count_tokens(data, split)
        whole = report.coverage[split]["all"]
        assert (whole.tokens, whole.covered) == (counts.total(), sum(n for token, n in counts.items() if t2d[token]))
        assert sum(report.coverage[split][label].covered for label in ("chat", "math")) == whole.covered
        assert 0 < whole.share < 1


def test_the_targets_whole_vocabulary(data: Path, tmp_path: Path) -> None:
    for size in (None, VOCAB):
        report = run(data, tmp_path / str(size), size)
        assert (report.reduced, report.draft_vocab_size) == (False, VOCAB)
        assert report.coverage["held_out"]["all"].share == 1.0
        maps = load_file(tmp_path / str(size) / "vocab.safetensors")
        assert not maps["d2t"].any()
        assert maps["t2d"].all()


def test_the_same_data_gives_the_same_file_once(data: Path, tmp_path: Path) -> None:
    first = run(data, tmp_path / "a", 300)
    made = (tmp_path / "a/vocab.safetensors").stat().st_mtime_ns
    assert run(data, tmp_path / "a", 300) == first == run(data, tmp_path / "b", 300)
    assert (tmp_path / "a/vocab.safetensors").stat().st_mtime_ns == made
    assert (tmp_path / "a/vocab.safetensors").read_bytes() == (tmp_path / "b/vocab.safetensors").read_bytes()
    with pytest.raises(TrainingError, match=r"another vocabulary \(draft_vocab_size 300, asked for: 200\)"):
        run(data, tmp_path / "a", 200)


def test_what_cannot_be_built(data: Path, tmp_path: Path) -> None:
    with pytest.raises(AdaptError, match="draft_vocab_size 3000 must lie between"):
        run(data, tmp_path / "v", 3000)
    with pytest.raises(AdaptError, match="draft_vocab_size 2 must lie between"):
        run(data, tmp_path / "v", 2)
    assert not (tmp_path / "v").exists()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/report.json").write_text("{}")
    with pytest.raises(TrainingError, match=r"run `k25serve drafter train data` again"):
        run(tmp_path / "data", tmp_path / "v", 300)
    (tmp_path / "data/report.json").write_bytes((data / "report.json").read_bytes())
    with pytest.raises(TrainingError, match="no data set"):
        run(tmp_path / "data", tmp_path / "v", 300)


def test_the_command(data: Path, tmp_path: Path) -> None:
    words = ["vocab", "--data", str(data), "--target", str(TARGET), "--out", str(tmp_path / "v")]
    runner = CliRunner()
    wrong = runner.invoke(app, words)
    assert wrong.exit_code == 2
    assert "draft_vocab_size 32000 must lie between" in wrong.stderr
    shown: Any = runner.invoke(app, [*words, "--draft-vocab-size", "300"])
    assert shown.exit_code == 0, shown.output
    assert "300 of 2,048 tokens" in shown.output
    full = runner.invoke(app, [*words[:-1], str(tmp_path / "f"), "--draft-vocab-size", "0", "--json"])
    assert json.loads(full.stdout)["reduced"] is False
