"""`k25serve drafter train run` as a user types it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from k25serve.drafters.cli import app

COMMAND = ("train", "run")


def test_plan_does_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(
        app, [*COMMAND, "--config", "packaged:tiny", "--out", str(out), "--plan"], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 0, result.stderr
    for word in ("data", "vocab", "capture", "fit", "export", "gate", "2,048 bytes a token", "7 minutes", "left"):
        assert word in result.stdout
    assert not out.exists()


def test_plan_in_parts(tmp_path: Path) -> None:
    sets = ["--set", "hidden_bytes=60000000"]
    arguments = ["--config", "packaged:tiny", "--out", str(tmp_path / "run"), "--plan", *sets]
    result = CliRunner().invoke(app, [*COMMAND, *arguments], env={"COLUMNS": "200"})
    assert "part 2 of " in result.stdout


def test_show_gives_a_config_to_edit(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    shown = CliRunner().invoke(app, [*COMMAND, "--config", "packaged:k25", "--show"])
    own.write_text(shown.stdout)
    assert "# edit: prompts of your own traffic" in shown.stdout
    changed = CliRunner().invoke(app, [*COMMAND, "--config", str(own), "--set", "fit.epochs=2", "--show"])
    assert "epochs: 2" in changed.stdout
    missing = CliRunner().invoke(app, [*COMMAND, "--config", str(own)])
    assert (missing.exit_code, "--out is missing" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--config", "packaged:huge"], "packaged:micro"),
        (["--config", "packaged:micro", "--set", "fit.steps=1"], "unknown key"),
        (["--config", "packaged:micro", "--set", "target=/nowhere"], "target /nowhere: holds no config.json"),
        (["--config", "packaged:micro", "--set", "target=$NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set"),
        (["--config", "packaged:micro", "--set", "machine=abacus", "--plan"], "unknown machine"),
        (["--config", "packaged:micro", "--set", "data.held_out=.nan"], "data.held_out"),
        (["--config", "packaged:micro", "--until", "fly"], "--until fly: no such step"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], told: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*COMMAND, "--out", str(tmp_path / "run"), *arguments], env={"COLUMNS": "400"})
    assert result.exit_code == 2, result.stderr
    assert told in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
