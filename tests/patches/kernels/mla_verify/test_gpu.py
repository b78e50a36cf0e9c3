"""The kernels on a CUDA device: prefixes to 128k, every split count, graphs."""

import pytest
import torch

from k25serve.patches.kernels.mla_verify import Workspace, mla_verify

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run pytest -m gpu on one"),
]
PREFIXES = [0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4097, 8191]
BOUND = {"bf16": 2e-3, "fp8": 2e-3, "fp8_dot": 8e-2}


@pytest.mark.parametrize("kind", ["bf16", "fp8", "fp8_dot"])
@pytest.mark.parametrize("n_splits", [1, 2, 3, 8, 9, 16, 17, 64, 65, 132, 188, 300, None])
def test_every_split_count(make_case, kind: str, n_splits: int | None) -> None:
    case = make_case(PREFIXES, kind=kind, device="cuda", seed=n_splits or 0)
    assert case.error(case.run(n_splits)) <= BOUND[kind]


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
@pytest.mark.parametrize("prefix", [32767, 131071])
def test_long_prefixes(make_case, kind: str, prefix: int) -> None:
    case = make_case([prefix, 3], kind=kind, device="cuda", seed=prefix)
    for n_splits in (1, 5, 132, None):
        assert case.error(case.run(n_splits)) <= BOUND[kind]


@pytest.mark.parametrize("draft_tokens", range(1, 9))
@pytest.mark.parametrize("heads", [8, 16, 32, 64, 128])
def test_every_draft_length(make_case, heads: int, draft_tokens: int) -> None:
    for kind in ("bf16", "fp8"):
        case = make_case([0, 31, 66, 517], heads, draft_tokens, kind, "cuda", seed=heads + draft_tokens)
        assert case.error(case.run()) <= BOUND[kind]


@pytest.mark.parametrize("override", ["stages=3", "blocks=1", "blocks=2", "tokens_first=0", "granule=64"])
def test_alternates(make_case, override: str) -> None:
    case = make_case(PREFIXES, device="cuda")
    assert case.error(case.run(None, override)) <= BOUND["bf16"]


@pytest.mark.parametrize("kind", ["bf16", "fp8", "fp8_dot"])
@pytest.mark.parametrize("n_splits", [1, 16, 132])
def test_a_later_draft_token_changes_no_bit(make_case, kind: str, n_splits: int) -> None:
    case = make_case([0, 1000, 17], kind=kind, device="cuda")
    before = case.run(n_splits).reshape(3, 4, -1)
    for request in range(3):
        after = case.with_other_draft(request, 3).run(n_splits).reshape(3, 4, -1)
        assert torch.equal(before[:, :3], after[:, :3])
        assert not torch.equal(before[request, 3], after[request, 3])


def test_a_graph_replays_with_new_lengths(make_case) -> None:
    """Lengths, slots and values are read on the device: a captured step serves what they become."""
    first, second = (make_case(prefixes, device="cuda", seed=len(prefixes)) for prefixes in ([40, 900], [700, 240]))
    tokens, heads = first.q.shape[:2]
    workspace = Workspace.allocate(
        max_batch=2, heads=heads, max_draft_tokens=4, kv_dtype=torch.bfloat16, device="cuda", override=""
    )
    out = torch.empty((tokens, heads, 512), dtype=torch.bfloat16, device="cuda")
    inputs = [t.clone() for t in (first.q, first.k_extend, first.kv_buffer, first.kv_indptr, first.kv_indices)]
    mla_verify(*inputs, out, 0.1, workspace)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        mla_verify(*inputs, out, 0.1, workspace)
    for case in (first, second):
        given = (case.q, case.k_extend, case.kv_buffer, case.kv_indptr, case.kv_indices)
        for kept, new in zip(inputs, given, strict=True):
            kept.copy_(new)
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert case.error(out) <= BOUND["bf16"]
        assert torch.equal(out, case.run())
