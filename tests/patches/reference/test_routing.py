"""Expert routing as SGLang computes it on the CPU, in torch, against DeepSeek-V3's definition."""

import importlib

import pytest
import torch

CASES = [(1, 1, 16, 8), (4, 2, 16, 4), (8, 4, 32, 5), (1, 1, 6, 1)]


@pytest.fixture
def topk(sglang_on_cpu):
    return importlib.import_module("sglang.srt.layers.moe.topk")


def route(logits, bias, groups, kept_groups, k):
    """Per token: score = sigmoid(logit); choose by score + bias within the best groups; weigh by score alone, sum 1.

    A group counts by its two best choices where there is a bias, by its best one where not.
    """
    chosen = []
    for row in logits.double().sigmoid().tolist():
        choice = [score + b for score, b in zip(row, bias or [0.0] * len(row), strict=True)]
        size = len(row) // groups
        members = [list(range(g * size, (g + 1) * size)) for g in range(groups)]
        counted = 2 if bias else 1
        worth = [sum(sorted((choice[e] for e in group), reverse=True)[:counted]) for group in members]
        best = sorted(range(groups), key=lambda g: -worth[g])[:kept_groups]
        allowed = [e for g in best for e in members[g]]
        experts = sorted(allowed, key=lambda e: -choice[e])[:k]
        total = sum(row[e] for e in experts)
        chosen.append({e: row[e] / total for e in experts})
    return chosen


@pytest.mark.parametrize("tokens", [1, 5, 33])
@pytest.mark.parametrize(("groups", "kept", "experts", "k"), CASES)
@pytest.mark.parametrize("biased", [True, False])
def test_grouped_sigmoid_routing(topk, tokens, groups, kept, experts, k, biased):
    logits, bias = torch.randn(tokens, experts), torch.randn(experts) if biased else None
    config = topk.TopKConfig(
        top_k=k,
        use_grouped_topk=True,
        topk_group=kept,
        num_expert_group=groups,
        renormalize=True,
        correction_bias=bias,
        scoring_func="sigmoid",
    )
    got = topk.select_experts(torch.zeros(tokens, 3), logits, config)
    want = route(logits, bias.tolist() if biased else None, groups, kept, k)
    for ids, weights, expected in zip(got.topk_ids.tolist(), got.topk_weights.tolist(), want, strict=True):
        assert dict(zip(ids, weights, strict=True)) == pytest.approx(expected, abs=1e-6)
