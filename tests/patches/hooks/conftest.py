"""What SGLang would give the hooks, played."""

import functools
from collections.abc import Callable

import prometheus_client
import pytest


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> prometheus_client.CollectorRegistry:
    """Where the metrics of the row under test go: a name can be registered once in a registry."""
    own = prometheus_client.CollectorRegistry()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "set")
    for kind in ("Histogram", "Gauge"):
        made: Callable[..., object] = functools.partial(getattr(prometheus_client, kind), registry=own)
        monkeypatch.setattr(prometheus_client, kind, made)
    return own
