"""The command: what it prints, its exit codes, mistakes in one line."""

from pathlib import Path

import pytest
from captured import played
from captured.engine import PlayedEngine
from typer.testing import CliRunner

from k25serve.drafters.cli import app
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.capture import check as checking
from k25serve.drafters.training.capture import engine as client
from k25serve.patches.hooks import capture_states


def run(engine: PlayedEngine, data: Path, out: Path, *more: str) -> tuple[int, str, str]:
    arguments = ["--data", str(data), "--out", str(out), "--url", engine.url, "--target", str(TARGET)]
    result = CliRunner().invoke(app, ["train", "capture", *arguments, *more])
    return result.exit_code, result.stdout, result.stderr


def test_capture_then_check(
    engine: PlayedEngine, run_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "Reference", lambda target: played.Decoder())
    out = tmp_path / "hidden"
    code, printed, told = run(engine, run_data, out, "--rows-per-shard", "4", "--concurrency", "2")
    assert (code, "3 shards sealed: 10 rows captured, 0 were there" in printed) == (0, True)
    assert "[capture, 387 kB] 10/10" in told
    code, printed, _ = run(engine, run_data, out, "--check", "4")
    assert code == 0
    assert "check: passed" in printed
    engine.model.shift = 1
    run(engine, run_data, tmp_path / "shifted")
    code, printed, _ = run(engine, run_data, tmp_path / "shifted", "--check", "4")
    assert code == 1
    assert "fault: what was captured as layer 1 is what leaves layer 2" in printed
    assert "check: failed" in printed


def test_some_shards_of_one_split(engine: PlayedEngine, run_data: Path, tmp_path: Path) -> None:
    some = ("--rows-per-shard", "2", "--split", "train", "--shards", "1-2")
    code, printed, _ = run(engine, run_data, tmp_path / "hidden", *some)
    assert (code, "2 shards sealed: 4 rows captured" in printed) == (0, True)
    assert {path.name for path in (tmp_path / "hidden" / "train").glob("*.json")} == {"shard-1.json", "shard-2.json"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--layers", "a"), "--layers a: give numbers, counted from 0, as 1,29,57"),
        (("--layers", "1,2"), "--layers 1,2: the engine captures 1,2,3"),
        (("--split", "test"), "--split test: input should be 'train' or 'held_out'"),
        (("--verify", "no"), "--verify no: input should be 'hash' or 'size'"),
        (("--shards", "x"), "--shards x: give a number, or two as 0-3"),
        (("--shards", "7"), "--shards 7: the data has no such shard"),
        (("--disk-budget", "0.0001"), "the budget is 100 kB; raise --disk-budget"),
        (("--check", "3"), "no captured sample"),
    ],
)
def test_mistakes_are_one_line(
    engine: PlayedEngine, run_data: Path, tmp_path: Path, more: tuple[str, ...], told: str
) -> None:
    code, _, error = run(engine, run_data, tmp_path / "hidden", *more)
    assert code == 2
    assert told in error
    (line,) = [line for line in error.splitlines() if line.startswith("k25serve: error: ")]
    assert line == error.strip().splitlines()[-1]


def test_the_client_reads_what_the_row_writes() -> None:
    assert (client.REPORT, client.MARKER) == (capture_states.REPORT, capture_states.MARKER)
