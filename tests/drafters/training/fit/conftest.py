"""The toy target with a run folder."""

from pathlib import Path

import pytest
from drafter_files.run_folder import write_run
from drafter_files.toy import write_target


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("toy") / "target")


@pytest.fixture
def run(tmp_path: Path, target: Path) -> Path:
    return write_run(tmp_path / "run", target)
