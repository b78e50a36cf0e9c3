import importlib
from types import SimpleNamespace

import pytest
import torch

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import lossy_expert_budget
from k25serve.patches.hooks.lossy_expert_budget import NAME, LossyExpertBudget
from k25serve.patches.hooks.rank import Rank
from k25serve.patches.kernels.moe_verify import naive

TOKENS, EXPERTS, TOP_K, SCALE = 5, 8, 2, 1.5


@pytest.fixture
def topk(sglang_on_cpu):
    return importlib.import_module("sglang.srt.layers.moe.topk")


def make(budget=3):
    return LossyExpertBudget(Context(Here("0.5.23", "cpu", "scheduler"), {"budget": budget}))


def layer(**changes):
    config = {"top_k": TOP_K, "scoring_func": "sigmoid", "correction_bias": torch.zeros(EXPERTS), "num_expert_group": 1}
    config = SimpleNamespace(**config | {"num_shared_topk_slots": 0} | changes)
    gate = SimpleNamespace(weight=torch.zeros(EXPERTS, 4))
    return SimpleNamespace(topk=SimpleNamespace(topk_config=config), gate=gate)


def test_routes_again_inside_the_budget(topk):
    """On SGLang's own result: the naive form's experts; each token's weights keep their sum."""
    logits, bias = torch.randn(TOKENS, EXPERTS), torch.rand(EXPERTS)
    weights, ids = topk.biased_grouped_topk_impl(
        torch.zeros(TOKENS, 4), logits, bias, TOP_K, True, 1, 1, 0, SCALE, apply_routed_scaling_factor_on_output=True
    )
    ids[-1] = -1  # a padding row
    before = weights.clone()
    row = make()
    row._scope.active = True
    result = topk.StandardTopKOutput(weights, ids, logits)
    config = SimpleNamespace(top_k=TOP_K, correction_bias=bias)
    assert row.routed(result, None, logits, config, layer_id=1, expert_location_dispatch_info=None) is None
    shares, experts = naive.budgeted_topk(
        logits.tolist(), bias.tolist(), [True] * (TOKENS - 1) + [False], TOP_K, budget=3
    )
    assert ids[:-1].tolist() == experts[:-1]
    assert ids[-1].tolist() == [-1, -1]
    torch.testing.assert_close(weights[:-1], SCALE * torch.tensor(shares[:-1]), rtol=1e-5, atol=1e-6)
    assert torch.equal(weights[-1], before[-1])
    assert naive.unique_experts(ids.tolist()) <= max(3, len({picks[0] for picks in experts[:-1]}))


def test_outside_of_verification_nothing_changes(topk):
    weights, ids = torch.rand(TOKENS, TOP_K), torch.zeros(TOKENS, TOP_K, dtype=torch.int32)
    kept = weights.clone(), ids.clone()
    result = topk.StandardTopKOutput(weights, ids, None)
    make().routed(result, None, torch.randn(TOKENS, EXPERTS), SimpleNamespace(), layer_id=1)
    assert torch.equal(weights, kept[0])
    assert torch.equal(ids, kept[1])


@pytest.mark.parametrize("name", ["expert_location_dispatch_info", "dynamic_expert_bias"])
def test_relocated_experts_are_refused(name):
    row = make()
    row._scope.active = True
    with pytest.raises(ValueError, match=f"{name} is set"):
        row.routed(None, None, torch.zeros(TOKENS, EXPERTS), SimpleNamespace(), layer_id=1, **{name: object()})


@pytest.mark.parametrize(
    ("budget", "changes", "message"),
    [
        (1, {}, "budget 1 must be 2 to 7"),
        (8, {}, "budget 8 must be 2 to 7"),
        (-3, {}, "budget -3 must be 2 to 7"),
        (3, {"scoring_func": "softmax"}, "not for scoring_func"),
        (3, {"correction_bias": None}, "not for correction_bias"),
        (3, {"num_expert_group": 4}, "not for num_expert_group"),
        (3, {"num_shared_topk_slots": 1}, "not for shared experts among the routed ones"),
        (3, {"num_fused_shared_experts": 1}, "not for shared experts among the routed ones"),
    ],
)
def test_what_it_is_not_written_for_stops_the_launch(budget, changes, message):
    with pytest.raises(ValueError, match=message):
        make(budget).built(None, layer(**changes))


def test_it_says_that_it_is_lossy(monkeypatch, registry, capsys):
    monkeypatch.setattr(lossy_expert_budget, "this_rank", lambda: Rank(0, 0))
    row = make()
    with pytest.raises(ValueError, match="no mixture of experts"):
        row.facts()
    row.built(None, layer())
    assert row.facts() == {"lossy": True, "budget": 3}
    assert "LOSSY: patch lossy_expert_budget is on" in capsys.readouterr().err
    assert registry.get_sample_value(NAME, {"patch": "lossy_expert_budget"}) == 1
