"""An engine with the row, over a small decoder, and a run's data."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from captured import data, played
from captured.engine import PlayedEngine, armed, serving

from k25serve.patches.hooks import capture_states
from k25serve.patches.hooks.rank import Rank


@pytest.fixture
def run_data(tmp_path: Path) -> Path:
    """Eight train samples and two held out."""
    return data.write(tmp_path / "data", data.prompts())


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedEngine]:
    """It captures layers 1, 2 and 3 into `tmp_path`/states."""
    monkeypatch.setattr(capture_states, "this_rank", lambda: Rank(0, 0))
    model = played.PlayedModel()
    with serving(PlayedEngine(armed(tmp_path / "states", model), model)) as running:
        yield running
