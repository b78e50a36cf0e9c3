"""The toy target, written once."""

from pathlib import Path

import pytest
from drafter_files.toy import write_target


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("toy") / "target")
