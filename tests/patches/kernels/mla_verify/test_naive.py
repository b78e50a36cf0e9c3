"""The readable form against the formula itself, in float64."""

import math

import pytest
import torch


def formula(case, scale: float, request: int, draft: int, head: int) -> torch.Tensor:
    """softmax(q K^T s) V for one row, number by number."""
    start, end = case.kv_indptr[request : request + 2].tolist()
    drafts = case.q.shape[0] // (case.kv_indptr.shape[0] - 1)
    keys = [case.kv_buffer[slot, 0].double() * scale for slot in case.kv_indices[start:end].tolist()]
    keys += [case.k_extend[request * drafts + i, 0].double() for i in range(draft + 1)]
    q = case.q[request * drafts + draft, head].double()
    scores = [float(torch.dot(q, key)) * 0.1 for key in keys]
    weights = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(weights)
    return sum(weight / total * key[:512] for weight, key in zip(weights, keys, strict=True))


@pytest.mark.parametrize(("kind", "scale"), [("bf16", 1.0), ("fp8", 0.37)])
def test_is_the_formula(make_case, kind: str, scale: float) -> None:
    case = make_case([0, 1, 37], heads=3, draft_tokens=3, kind=kind)
    out = case.reference().reshape(3, 3, 3, 512)
    for request in range(3):
        for draft in range(3):
            for head in range(3):
                torch.testing.assert_close(
                    out[request, draft, head], formula(case, scale, request, draft, head), rtol=1e-12, atol=1e-12
                )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_later_draft_token_changes_no_bit(make_case, dtype: torch.dtype) -> None:
    case = make_case([0, 21], draft_tokens=4)
    other = case.with_other_draft(request=1, draft=2)
    before, after = (c.reference(dtype).reshape(2, 4, -1) for c in (case, other))
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1, :2], after[1, :2])
    assert not torch.equal(before[1, 2], after[1, 2])
    assert not torch.equal(before[1, 3], after[1, 3])
