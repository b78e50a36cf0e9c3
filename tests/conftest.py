"""Order of the whole run; signals as a terminal's program has them."""

import signal

import pytest


def pytest_sessionstart() -> None:
    """Programs under test hear SIGHUP, also where the run itself was started under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that boot the engine come last: while one lives, it takes time from every other test."""
    items.sort(key=lambda item: item.get_closest_marker("engine") is not None)
