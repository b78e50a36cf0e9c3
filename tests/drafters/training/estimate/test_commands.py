"""`k25serve drafter train estimate` as a user types it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from k25serve.drafters.cli import app

COMMAND = ("train", "estimate")


def test_table_tells_hours_and_assumptions() -> None:
    result = CliRunner().invoke(app, [*COMMAND, "--price-per-gpu-hour", "2"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for word in (
        "regenerate",
        "capture",
        "57,344 bytes a token",
        "no room to train beside",
        "cost",
        "Assumptions",
        "guess",
    ):
        assert word in result.stdout


def test_json_is_whole() -> None:
    result = CliRunner().invoke(app, [*COMMAND, "--json", "--samples", "1000"])
    told = json.loads(result.stdout)
    assert told["hours"]["total"] == pytest.approx(sum(v for k, v in told["hours"].items() if k != "total"))
    assert told["tokens"] == 2_000_000
    assert told["trains_beside_serving"] is False
    assert told["cost"] is None
    assert told["recommendation"].endswith(".")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--samples", "0"], "--samples = 0: input should be greater than or equal to 1"),
        (["--hours", "-3"], "--hours = -3.0: input should be greater than 0"),
        (["--disk-tb", "nan"], "--disk-tb = nan"),
        (["--price-per-gpu-hour", "inf"], "--price-per-gpu-hour = inf"),
        (["--epochs", "-1"], "--epochs = -1"),
        (["--machine", "abacus"], "--machine abacus: unknown machine; give one of b200-x8"),
        (["--target", "/nowhere"], "/nowhere/config.json: no such file"),
        (["--write", "/nowhere/plan.md"], "--write /nowhere/plan.md: cannot be written"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, [*COMMAND, *arguments], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_document_is_of_the_machine_and_profile(tmp_path: Path) -> None:
    path = tmp_path / "next-steps-eagle.md"
    arguments = ["--machine", "h200-x8", "--profile", "mine.yaml", "--disk-tb", "2", "--write", str(path)]
    assert CliRunner().invoke(app, [*COMMAND, *arguments]).exit_code == 0
    text = path.read_text()
    for word in (
        "h200-x8",
        "`mine.yaml`",
        "lightseekorg/kimi-k2.5-eagle3-mla",
        "2.30 to 2.345",
        "in 7 parts",
        "b300-x8",
    ):
        assert word in text
    assert "PCIe bounds" not in text
    again = CliRunner().invoke(app, [*COMMAND, "--write", str(path)])
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert path.read_text() == text


def test_document_names_no_kimi_drafter_for_another_target(tmp_path: Path) -> None:
    from k25serve.drafters.tiny import TARGET

    path = tmp_path / "plan.md"
    CliRunner().invoke(app, [*COMMAND, "--target", str(TARGET), "--write", str(path)])
    assert "none is for this target" in path.read_text()
    assert "lightseekorg/kimi" not in path.read_text().split("## The run")[0].split("1. ")[1].split("2. ")[0]
