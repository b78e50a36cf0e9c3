"""The file of speculation.adaptive is looked at before anything starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from k25serve.bench.plan.commands import app
from k25serve.server.config import load_profile
from k25serve.server.engine.preflight import check_costs
from k25serve.server.errors import PreflightError


def test_what_the_plan_writes_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    assert CliRunner().invoke(app, ["adaptive", str(path)]).exit_code == 0
    check_costs(path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"^speculation\.adaptive .*none\.json: can't be read as JSON") as caught:
        check_costs(tmp_path / "none.json")
    assert "\n" not in str(caught.value)


def test_the_patch_can_be_left_out() -> None:
    """SGLang's own policy then reads the same file."""
    changes = ["speculation.adaptive=costs.json", "patches.adaptive_costs=false"]
    assert load_profile("cpu-tiny", changes).switches == {"adaptive_costs": False}
    assert load_profile("cpu-tiny", changes[:1]).switches == {"adaptive_costs": True}
