"""Routing of a verify step against its naive form."""

import pytest
import torch

from k25serve.patches.kernels.moe_verify import budgeted_topk, naive, unique_experts

SHAPES = [(1, 8, 2), (4, 8, 2), (4, 384, 8), (7, 33, 4), (64, 384, 8)]


def routed(tokens: int, experts: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, bias, valid; the last quarter of the rows is padding, with values that would win if it had a say."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(tokens, experts, generator=generator, dtype=torch.float64)
    bias = torch.rand(experts, generator=generator, dtype=torch.float64)
    valid = torch.arange(tokens) < max(1, tokens - tokens // 4)
    logits[~valid] = logits[~valid].abs() * 10
    return logits.float(), bias.float(), valid


@pytest.mark.parametrize(("tokens", "experts", "top_k"), SHAPES)
def test_unique(tokens: int, experts: int, top_k: int) -> None:
    generator = torch.Generator().manual_seed(tokens)
    ids = torch.stack([torch.randperm(experts, generator=generator)[:top_k] for _ in range(tokens)]).int()
    ids[tokens // 2 + 1 :] = -1
    assert unique_experts(ids, experts).item() == naive.unique_experts(ids.tolist())


def test_unique_of_nothing_but_padding_and_of_all() -> None:
    assert unique_experts(torch.full((3, 2), -1), 8).item() == 0
    assert unique_experts(torch.empty(0, 2, dtype=torch.int64), 8).item() == 0
    assert unique_experts(torch.arange(8).reshape(4, 2), 8).item() == 8


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("tokens", "experts", "top_k"), SHAPES)
def test_budget(tokens: int, experts: int, top_k: int, seed: int) -> None:
    logits, bias, valid = routed(tokens, experts, seed)
    for budget in sorted({top_k, top_k + 1, experts // 2, experts}):
        weights, ids = budgeted_topk(logits, bias, valid, top_k, budget)
        expected_weights, expected_ids = naive.budgeted_topk(
            logits.tolist(), bias.tolist(), valid.tolist(), top_k, budget
        )
        assert ids.tolist() == expected_ids
        torch.testing.assert_close(weights, torch.tensor(expected_weights), rtol=1e-5, atol=1e-6)
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights.sum(-1), torch.ones(tokens))


@pytest.mark.parametrize(("tokens", "experts", "top_k"), SHAPES)
def test_what_the_budget_promises(tokens: int, experts: int, top_k: int) -> None:
    logits, bias, valid = routed(tokens, experts, seed=9)
    choice = logits.sigmoid() + bias
    first = choice.argmax(-1)
    firsts = len(set(first[valid].tolist()))
    for budget in range(top_k, experts + 1, max(1, experts // 9)):
        _, ids = budgeted_topk(logits, bias, valid, top_k, budget)
        assert (ids[:, 0] == first).all(), "a token's own first choice is always kept"
        assert all(len(set(row)) == top_k for row in ids.tolist())
        assert unique_experts(ids[valid], experts).item() <= max(budget, firsts)
    _, unbounded = budgeted_topk(logits, bias, valid, top_k, experts)
    assert torch.equal(unbounded, choice.topk(top_k).indices), "a budget of all experts changes nothing"


def test_a_budget_below_the_first_choices_keeps_the_most_wanted_of_them() -> None:
    """Three tokens with three first choices, a budget of two."""
    logits = torch.full((3, 6), -4.0)
    logits[0, 0], logits[1, 1], logits[2, 2], logits[1, 0] = 4.0, 4.0, 3.0, 2.0
    _, ids = budgeted_topk(logits, torch.zeros(6), torch.ones(3, dtype=torch.bool), 2, 2)
    assert ids[:, 0].tolist() == [0, 1, 2]
    assert {expert for row in ids.tolist() for expert in row} == {0, 1, 2}
