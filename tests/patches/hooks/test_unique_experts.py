from types import SimpleNamespace

import pytest
import torch

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import unique_experts
from k25serve.patches.hooks.rank import Rank
from k25serve.patches.hooks.unique_experts import NAME, UniqueExperts

EXPERTS = 8
IDS = {
    1: torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]]),
    2: torch.tensor([[0, 1], [0, 1], [-1, -1], [0, 1]]),
    # 8 and 9: shared experts among the routed ones.
    3: torch.tensor([[0, 8], [1, 9], [2, 8], [4, 9]]),
}
DISTINCT = {1: 4, 2: 2, 3: 4}


def make(monkeypatch, every_layer=1, every_step=1, rank=Rank(0, 0)):  # noqa: B008 - frozen
    monkeypatch.setattr(unique_experts, "this_rank", lambda: rank)
    row = UniqueExperts(
        Context(Here("0.5.23", "cpu", "scheduler"), {"every_layer": every_layer, "every_step": every_step})
    )
    row.loaded(None, "worker")
    return row


def step(row, ids=IDS, verify=True, requests=2):
    """A verify step of a worker, whose target's layers route to `ids`; its end is told to the row."""
    forward_batch = SimpleNamespace(forward_mode=SimpleNamespace(is_target_verify=lambda: verify))

    def layer(number, hidden_states, batch):
        result = SimpleNamespace(topk_ids=ids[number])
        row.routed(result, None, torch.zeros(len(ids[number]), EXPERTS), "config", layer_id=number)
        return "hidden"

    def run(worker, batch):
        assert [row.moe(layer, number, "hidden", forward_batch) for number in ids] == ["hidden"] * len(ids)
        return "verified"

    batch = SimpleNamespace(seq_lens=torch.zeros(requests))
    assert row.verified(run, SimpleNamespace(speculative_num_draft_tokens=2), batch) == "verified"
    row.idle(lambda scheduler: None, "scheduler")


def read(registry, tokens):
    return [registry.get_sample_value(f"{NAME}_{part}", {"tokens": tokens}) or 0 for part in ("count", "sum")]


def test_every_layer_and_step(monkeypatch, registry):
    row = make(monkeypatch)
    step(row)
    assert read(registry, "4") == [3, sum(DISTINCT.values())]
    step(row)
    step(row, requests=3)
    assert read(registry, "4") == [6, 2 * sum(DISTINCT.values())]
    assert read(registry, "8") == [3, sum(DISTINCT.values())]


def test_sampled(monkeypatch, registry):
    row = make(monkeypatch, every_layer=2, every_step=3)
    for _ in range(7):
        step(row)
    assert read(registry, "4") == [2 * 2, 2 * (DISTINCT[1] + DISTINCT[3])]


def test_only_verification_counts(monkeypatch, registry):
    row = make(monkeypatch)
    step(row, verify=False)
    assert read(registry, "4") == [0, 0]
    step(row)
    step(row, verify=False, ids={1: IDS[2]})
    assert row._scope.active is False


def test_an_idle_step_is_none(monkeypatch, registry):
    row = make(monkeypatch)
    step(row, requests=0)
    assert read(registry, "1") == [0, 0]


def test_the_scope_ends_with_an_exception(monkeypatch, registry):
    row = make(monkeypatch)
    forward_batch = SimpleNamespace(forward_mode=SimpleNamespace(is_target_verify=lambda: True))

    def breaks(*args, **kwargs):
        assert row._scope.active
        raise RuntimeError("SGLang's own")

    with pytest.raises(RuntimeError, match="SGLang's own"):
        row.moe(breaks, "layer", "hidden", forward_batch=forward_batch)
    assert not row._scope.active


def test_other_ranks_do_nothing(monkeypatch, registry):
    row = make(monkeypatch, rank=Rank(1, 0))
    step(row)
    assert row._counts is None
    assert read(registry, "4") == [0, 0]


@pytest.mark.parametrize("options", [{"every_layer": 0}, {"every_step": -1}])
def test_wrong_options(monkeypatch, registry, options):
    with pytest.raises(ValueError, match="must be at least 1"):
        make(monkeypatch, **options)
