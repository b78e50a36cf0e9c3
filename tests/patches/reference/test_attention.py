import math

import pytest
import torch

from k25serve.patches.reference import attention

MLA = (4, 1, 576, 512)
MHA = (3, 3, 20, 20)
GQA = (6, 2, 16, 24)


def naive(q, keys, values, visible, scaling, logit_cap=0.0):
    """One query, one head, one row at a time, in float64."""
    b, n, heads, _ = q.shape
    kv, kv_heads, v_dim = values.shape[1:]
    out = torch.zeros(b, n, heads, v_dim, dtype=torch.float64)
    for r in range(b):
        for i in range(n):
            for h in range(heads):
                head = h // (heads // kv_heads)
                rows = [j for j in range(kv) if visible[r, i, j]]
                scores = [float(q[r, i, h].double() @ keys[r, j, head].double()) * scaling for j in rows]
                if logit_cap:
                    scores = [logit_cap * math.tanh(s / logit_cap) for s in scores]
                weights = [math.exp(s - max(scores)) for s in scores]
                for weight, j in zip(weights, rows, strict=True):
                    out[r, i, h] += values[r, j, head].double() * weight / sum(weights)
    return out


@pytest.mark.parametrize(("heads", "kv_heads", "dim", "v_dim"), [MLA, MHA, GQA])
@pytest.mark.parametrize(("b", "n", "kv"), [(1, 1, 1), (1, 5, 7), (5, 3, 11)])
@pytest.mark.parametrize("logit_cap", [0.0, 2.5])
def test_attend_equals_the_definition(heads, kv_heads, dim, v_dim, b, n, kv, logit_cap):
    q, keys, values = (
        torch.randn(b, n, heads, dim),
        torch.randn(b, kv, kv_heads, dim),
        torch.randn(b, kv, kv_heads, v_dim),
    )
    visible = torch.rand(b, n, kv) < 0.6
    visible[:, :, 0] = True
    got = attention.attend(q, keys, values, visible, dim**-0.5, logit_cap)
    torch.testing.assert_close(
        got.double(), naive(q, keys, values, visible, dim**-0.5, logit_cap), atol=2e-5, rtol=1e-4
    )


def test_bf16_is_computed_in_fp32():
    q, keys, values = (torch.randn(2, 3, 4, 16).bfloat16() for _ in range(3))
    visible = torch.ones(2, 3, 3, dtype=torch.bool)
    got = attention.attend(q, keys, values, visible, 0.25)
    assert got.dtype == torch.float32
    torch.testing.assert_close(
        got, attention.attend(q.float(), keys.float(), values.float(), visible, 0.25), atol=0, rtol=0
    )


def test_causal_visibility():
    seen = attention.see_causal(torch.tensor([2, 5]), 2, 5)
    assert seen.int().tolist() == [[[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]]


def test_tree_visibility_with_and_without_prefix():
    tree = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]] * 2).bool()
    seen = attention.see_tree(torch.tensor([3, 5]), tree, 5)
    assert seen.int().tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0]],
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 0, 1]],
    ]


@pytest.mark.parametrize(
    ("q_lens", "prefixes", "blocks"),
    [
        ([1, 1, 1, 1, 1], [0, 3, 17, 1, 8], 1),
        ([4, 4], [0, 9], 1),
        ([1, 700, 2], [0, 0, 30], 5),
        ([300], [12], 2),
        ([3], [0], 1),
    ],
)
@pytest.mark.parametrize("table", [torch.int32, torch.int64])
def test_blocks_cover_every_query_with_its_own_rows(q_lens, prefixes, blocks, table):
    bs = len(q_lens)
    kv_lens = torch.tensor([q + p for q, p in zip(q_lens, prefixes, strict=True)], dtype=torch.int32)
    req_to_token = torch.randperm((bs + 2) * 800).view(bs + 2, 800).to(table)
    requests = torch.randperm(bs + 2)[:bs]

    plan = list(attention.plan_blocks(req_to_token, requests, kv_lens, q_lens))

    assert len(plan) == blocks
    seen_by_query = {}
    for block in plan:
        b, n, kv = block.visible.shape
        assert block.slots.shape == (b, kv)
        assert block.rows.stop - block.rows.start == b * n
        for i in range(b * n):
            seen_by_query[block.rows.start + i] = block.slots[i // n][block.visible[i // n, i % n]].tolist()
    row = 0
    for request, q_len, prefix in zip(requests.tolist(), q_lens, prefixes, strict=True):
        for i in range(q_len):
            assert seen_by_query[row] == req_to_token[request, : prefix + i + 1].tolist()
            row += 1
    assert len(seen_by_query) == row


def test_padding_points_at_the_requests_own_first_slot():
    slots = attention.pad_slots(torch.tensor([[7, 8, 9], [4, 5, 6]]), torch.tensor([1, 3]))
    assert slots.tolist() == [[7, 7, 7], [4, 5, 6]]


def test_gather_equals_indexing():
    buffer, slots = torch.randn(30, 2, 5), torch.randint(0, 30, (4, 6))
    assert torch.equal(attention.gather(buffer, slots), buffer[slots])
