"""One engine a port, its last log kept, a folder that cannot be used told in one line."""

from pathlib import Path

import pytest

from k25serve.server.config import load_profile
from k25serve.server.engine.state import engine_state
from k25serve.server.errors import PreflightError


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_a_second_engine_on_the_port_is_refused() -> None:
    profile = load_profile("cpu-tiny")
    other = load_profile("cpu-tiny-nospec")
    with (
        engine_state(profile),
        pytest.raises(PreflightError, match=r"engine\.port 30000: another k25serve"),
        engine_state(other),
    ):
        pass
    with engine_state(other):
        pass


def test_the_last_log_is_kept() -> None:
    profile = load_profile("cpu-tiny")
    for text in ("first", "second"):
        with engine_state(profile) as state:
            state.log.write_text(text)
    log = state.log
    assert log.read_text() == "second"
    assert log.with_suffix(".log.1").read_text() == "first"


def test_a_folder_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    with (
        pytest.raises(PreflightError, match="set XDG_STATE_HOME to a folder of yours"),
        engine_state(load_profile("cpu-tiny")),
    ):
        pass


def test_a_log_that_is_no_file(state_home: Path) -> None:
    (state_home / "k25serve" / "cpu-tiny-30000.log").mkdir(parents=True)
    with pytest.raises(PreflightError, match="is not a regular file"), engine_state(load_profile("cpu-tiny")):
        pass
