"""Order of the whole run; signals as a terminal's program has them."""

import signal

import pytest


def pytest_sessionstart() -> None:
    """Programs under test hear SIGHUP and SIGINT, also where the run itself is under nohup or a shell's `&`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that boot the engine come last: while one lives, it takes time from every other test."""
    items.sort(key=lambda item: item.get_closest_marker("engine") is not None)
