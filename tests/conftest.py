"""Order of the whole run."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that boot the engine come last: while one lives, it takes time from every other test."""
    items.sort(key=lambda item: item.get_closest_marker("engine") is not None)
