"""`drafter train fit` and `export` from the command line."""

from pathlib import Path

import pytest
import yaml
from drafter_files.fit_settings import VALUES
from typer.testing import CliRunner

from k25serve.drafters.training.cli import app


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


def test_fit_and_export(run: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(VALUES))
    where = ["--run", str(run), "--target", str(target)]
    code, said = call("fit", *where, "--config", str(tmp_path / "own.yaml"), "--set", "max_steps=3")
    assert code == 0, said
    assert "3 steps, " in said
    assert "accept_length on held_out 1." in said
    code, said = call("export", *where)
    assert code == 0, said
    assert f"written: {run / 'drafter'}; it passes" in said
    code, said = call("export", *where)
    assert code == 2
    assert "exists and is not empty" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "tiny", "--set", "seeds=1"], "unknown key seeds (did you mean 'seed'?)"),
        (["--config", "huge"], "--config huge: no such file"),
        (["--config", "tiny"], "vocab.safetensors: cannot be read"),
    ],
)
def test_mistakes_are_one_line(target: Path, tmp_path: Path, words: list[str], message: str) -> None:
    code, said = call("fit", "--run", str(tmp_path), "--target", str(target), *words)
    assert code == 2
    assert said.startswith("k25serve: error: ")
    assert message in said
    assert said.count("\n") == 1
