"""Both functions inside a captured graph, replayed on inputs that were not there at capture."""

import pytest
import torch

from k25serve.patches.kernels.moe_verify import budgeted_topk, naive, unique_experts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run pytest -m gpu on one"),
]
TOKENS, EXPERTS, TOP_K, BUDGET = 64, 384, 8, 96


def test_replay_routes_what_is_there_now() -> None:
    logits = torch.zeros(TOKENS, EXPERTS, device="cuda")
    bias, valid = torch.rand(EXPERTS, device="cuda"), torch.arange(TOKENS, device="cuda") < TOKENS - 5

    def step() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        weights, ids = budgeted_topk(logits, bias, valid, TOP_K, BUDGET)
        return weights, ids, unique_experts(torch.where(valid.unsqueeze(1), ids, -1), EXPERTS)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weights, ids, unique = step()
    for seed in range(3):
        torch.manual_seed(seed)
        logits.copy_(2 * torch.randn(TOKENS, EXPERTS))
        graph.replay()
        shares, experts = naive.budgeted_topk(
            logits.double().tolist(), bias.double().tolist(), valid.tolist(), TOP_K, BUDGET
        )
        assert [sorted(row) for row in ids.tolist()] == [sorted(row) for row in experts]
        torch.testing.assert_close(
            weights.sort().values.cpu(), torch.tensor(shares).sort().values, rtol=1e-4, atol=1e-5
        )
        assert unique.item() == naive.unique_experts(ids[valid].tolist())
