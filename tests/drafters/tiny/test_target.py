"""The target's code against transformers' own, and the balancing of its routers."""

import torch
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny.export import split_experts, stack_experts
from k25serve.drafters.tiny.load import load_text_model
from k25serve.drafters.tiny.target import build_target, moe_layers
from k25serve.drafters.tiny.train_target import Balancer, next_token_loss


def test_dense_experts_equal_transformers_loop(target: DeepseekV3ForCausalLM) -> None:
    ids = torch.randint(0, 2048, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(target(ids).logits, load_text_model()(ids).logits, rtol=1e-4, atol=1e-4)


def test_experts_split_and_stack_back(target: DeepseekV3ForCausalLM) -> None:
    state = target.state_dict()
    names = split_experts(state)
    assert "model.layers.1.mlp.experts.7.up_proj.weight" in names
    back = stack_experts(names)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_balancer_pushes_towards_the_mean_and_ignores_padding() -> None:
    torch.manual_seed(0)
    model = build_target()
    balancer = Balancer(model)
    gate = moe_layers(model)[0].gate
    gate.e_score_correction_bias[3] = 1.0  # expert 3 gets every token
    ids = torch.zeros(1, 8, dtype=torch.int64)
    balancer.valid = torch.tensor([True] * 6 + [False] * 2)
    with torch.no_grad():
        model(ids)
    load = balancer.load[id(moe_layers(model)[0].experts)]
    assert load.sum() == 12
    assert load[3] == 6
    balancer.update()
    assert gate.e_score_correction_bias[3] < 1.0
    assert gate.e_score_correction_bias[load == 0].min() > 0
    balancer.close()


def test_loss_skips_what_does_not_count() -> None:
    logits = torch.zeros(1, 3, 4)
    logits[0, 0, 2] = 100.0
    ids = torch.tensor([[0, 2, 1]])
    assert next_token_loss(logits, ids, torch.tensor([[True, True, False]])).item() < 1e-6
    assert next_token_loss(logits, ids, torch.tensor([[True, False, True]])).item() > 1
