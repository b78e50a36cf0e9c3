"""An arm is kept as soon as it is measured; a later run measures those that are missing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks import steps, work
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.gpu.start import Start

ROW = {"batch": 1, "prefix": 128, "tokens_per_second": 9.0, "steps_by_mode": {"decode": {"mean_us": 1954.6}}}
REPORT = {"ranks": [], "wait": None}


def setting(folder: Path, ranks: int = 2) -> Setting:
    return Setting(ranks, "cpu-tiny", "cpu", Start((), (), folder))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Lets arms be measured or fail; the list of those that were tried."""

    def let(fails: dict[str, BaseException] | None = None) -> list[str]:
        tried: list[str] = []

        def arm(_: Setting, name: str) -> dict[str, Any]:
            tried.append(name)
            if name in (fails or {}):
                raise (fails or {})[name]
            return {
                "ready_s": 1.0,
                "patches": {},
                "arms": [ROW],
                "traces": {"report": REPORT, "trimmed": []},
            }

        monkeypatch.setattr(work, "_measured", arm)
        return tried

    return let


def kept(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "steps" / "work.json").read_text())
    return found


def test_an_arm_that_fails_does_not_cost_the_other(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured({"eagle3": ProofError("eagle3: ended with -9")})
    data = steps.run(setting(tmp_path), ["work"])
    assert data["failed"] == ["work: eagle3: ProofError('eagle3: ended with -9')"]
    assert data["not_run"] == ["kernels", "links", "parity", "plan", "kills"]
    assert kept(tmp_path)["arms"] == {"none": [ROW]}
    text = steps.markdown(data | {"tp": 2})
    assert "Not measured: arm eagle3." in text
    assert "| 128 | 1 | 9 | 1955 |" in text


def test_a_second_run_goes_on_with_the_missing_arm(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured({"eagle3": ProofError("x")})
    steps.run(setting(tmp_path), ["work"])
    tried = measured()
    data = steps.run(setting(tmp_path), ["work"])
    assert tried == ["eagle3"]
    assert data["failed"] == []
    assert list(data["steps"]["work"]["arms"]) == ["none", "eagle3"]
    assert data["steps"]["work"]["failed"] == {}
    assert "Not measured" not in steps.markdown(data | {"tp": 2})


def test_a_kill_between_the_arms_keeps_the_first(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured({"eagle3": SystemExit()})
    with pytest.raises(SystemExit):
        steps.run(setting(tmp_path), ["work"])
    assert list(kept(tmp_path)["arms"]) == ["none"]
    tried = measured()
    steps.run(setting(tmp_path), ["work"])
    assert tried == ["eagle3"]


def test_ctrl_c_keeps_the_first_arm_in_the_result(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured({"eagle3": KeyboardInterrupt()})
    data = steps.run(setting(tmp_path), ["work"])
    assert data["failed"] == ["work: interrupted"]
    assert "Not measured: arm eagle3." in steps.markdown(data | {"tp": 2})


def test_seconds_are_those_of_all_runs(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured()
    before = work.run(setting(tmp_path), None, lambda _: None) | {"seconds": 300.0}
    del before["arms"]["eagle3"]
    assert 300 <= work.run(setting(tmp_path), before, lambda _: None)["seconds"] < 310


def test_whole_data_and_that_of_other_ranks_are_measured_anew(
    tmp_path: Path, measured: Callable[..., list[str]]
) -> None:
    measured()
    whole = work.run(setting(tmp_path), None, lambda _: None)
    tried = measured()
    work.run(setting(tmp_path), whole, lambda _: None)
    assert tried == ["none", "eagle3"]
    del whole["arms"]["eagle3"]
    tried = measured()
    work.run(setting(tmp_path, 4), whole, lambda _: None)
    assert tried == ["none", "eagle3"]


def test_no_arm_is_an_error(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured({"none": OSError("gone"), "eagle3": ProofError("x")})
    (told,) = steps.run(setting(tmp_path), ["work"])["failed"]
    assert "none: OSError(" in told
    assert "eagle3: ProofError(" in told
    assert not (tmp_path / "steps" / "work.json").exists()


def test_the_plan_names_the_arm_that_it_lacks(tmp_path: Path, measured: Callable[..., list[str]]) -> None:
    measured({"eagle3": ProofError("x")})
    steps.run(setting(tmp_path), ["work"])
    (tmp_path / "steps" / "links.json").write_text("{}")
    (told,) = steps.run(setting(tmp_path), ["plan"])["failed"]
    assert "step plan needs arm eagle3 of step work, which was not measured; give --steps work,plan" in told
