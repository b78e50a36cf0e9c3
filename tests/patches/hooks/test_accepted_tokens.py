import pytest
from prometheus_client import REGISTRY

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import rank as rank_module
from k25serve.patches.hooks.accepted_tokens import NAME, AcceptedTokens
from k25serve.patches.hooks.rank import Rank


def make(monkeypatch, rank=Rank(0, 0), metrics="set"):  # noqa: B008 - frozen
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", metrics)
    monkeypatch.setattr(rank_module, "this_rank", lambda: rank)
    return AcceptedTokens(Context(Here("0.5.23", "cpu", "scheduler"), {}))


def test_every_step_of_every_request(monkeypatch):
    row = make(monkeypatch)
    for accepted in (3, 0, 0, 2, 16):
        assert row.step(None, "request", accepted) is None
    assert row.idle(lambda scheduler: "slept", "scheduler") == "slept"
    read = {name: REGISTRY.get_sample_value(f"{NAME}_{name}") for name in ("sum", "count")}
    assert read == {"sum": 21, "count": 5}
    assert REGISTRY.get_sample_value(f"{NAME}_bucket", {"le": "0.0"}) == 2
    assert REGISTRY.get_sample_value(f"{NAME}_bucket", {"le": "2.0"}) == 3


@pytest.mark.parametrize(("rank", "metrics"), [(Rank(1, 0), "set"), (Rank(0, 0), "")])
def test_other_ranks_and_no_metrics_count_nothing(monkeypatch, rank, metrics):
    row = make(monkeypatch, rank, metrics)
    row.step(None, "request", 3)
    assert row.idle(lambda scheduler: "slept", "scheduler") == "slept"
    assert row._tally is None
