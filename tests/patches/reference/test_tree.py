import random

import pytest
import torch

from k25serve.patches.reference import tree

SHAPES = [(1, 3, 4), (1, 1, 2), (2, 3, 6), (3, 2, 7), (2, 1, 3), (3, 4, 16), (4, 5, 33)]


def blank(bs, n, ints):
    return (
        torch.ones(bs * n * n, dtype=torch.bool),
        torch.full((bs * n,), 99, dtype=ints),
        *(torch.full((bs, n), -1, dtype=ints) for _ in range(3)),
    )


@pytest.mark.parametrize("bs", [1, 5])
@pytest.mark.parametrize(("topk", "depth", "n"), SHAPES)
@pytest.mark.parametrize("ints", [torch.int32, torch.int64])
def test_build_tree_equals_the_definition(draft, bs, topk, depth, n, ints):
    rng = random.Random(f"{bs}-{topk}-{depth}-{n}")
    drafts = [draft(rng, topk, depth, n) for _ in range(bs)]
    seq_lens = [rng.randrange(0, 900) for _ in range(bs)]
    mask, positions, index, first_child, sibling = blank(bs, n, ints)

    tree.build_tree(
        torch.tensor([d.parent_list for d in drafts], dtype=torch.int64).view(bs, -1),
        torch.tensor([d.selected_index for d in drafts]),
        torch.tensor(seq_lens, dtype=ints),
        mask,
        positions,
        index,
        first_child,
        sibling,
        topk,
        depth,
        n,
        tree.QLEN_ONLY,
    )

    assert index.tolist() == [[b * n + i for i in range(n)] for b in range(bs)]
    for b, d in enumerate(drafts):
        want_child, want_sibling = d.links()
        assert first_child[b].tolist() == want_child
        assert sibling[b].tolist() == want_sibling
        for node in range(n):
            seen = {node, *d.ancestors(node)}
            assert {c for c in range(n) if mask.view(bs, n, n)[b, node, c]} == seen
            assert positions.view(bs, n)[b, node] == seq_lens[b] + len(seen) - 1


def test_a_node_without_its_parent_is_never_reached():
    """Candidates 2 and 4 of a topk 2 tree: 4 is a child of candidate 1, which was not selected."""
    mask, positions, index, first_child, sibling = blank(1, 3, torch.int64)
    tree.build_tree(
        torch.tensor([[-1, 0, 1]]),
        torch.tensor([[0, 4]]),
        torch.tensor([10]),
        mask,
        positions,
        index,
        first_child,
        sibling,
        2,
        2,
        3,
        tree.QLEN_ONLY,
    )
    assert first_child.tolist() == [[1, -1, -1]]
    assert sibling.tolist() == [[-1, -1, -1]]
    assert mask.view(3, 3).tolist() == [[True, False, False], [True, True, False], [True, False, True]]


def test_other_mask_modes_are_refused():
    mask, positions, *links = blank(1, 2, torch.int64)
    with pytest.raises(ValueError, match=r"tree_mask_mode 0 .*QLEN_ONLY"):
        tree.build_tree(torch.empty(1, 0), torch.tensor([[0]]), torch.tensor([1]), mask, positions, *links, 1, 1, 2, 0)


@pytest.mark.parametrize("bs", [1, 5])
@pytest.mark.parametrize(("topk", "depth", "n"), SHAPES)
@pytest.mark.parametrize("flat", [True, False])
def test_reconstruction_recovers_links_from_the_mask(draft, bs, topk, depth, n, flat):
    rng = random.Random(f"{bs}-{topk}-{depth}-{n}")
    drafts = [draft(rng, topk, depth, n) for _ in range(bs)]
    seq_lens = [rng.randrange(0, 900) for _ in range(bs)]
    mask = torch.zeros(bs, n, n, dtype=torch.bool)
    for b, d in enumerate(drafts):
        for node in range(n):
            mask[b, node, [node, *d.ancestors(node)]] = True
    _, positions, index, first_child, sibling = blank(bs, n, torch.int64)
    links = [t.flatten() if flat else t for t in (index, first_child, sibling)]

    tree.reconstruct_indices_from_tree_mask(mask.flatten(), torch.tensor(seq_lens), positions, *links, bs, n)

    got_index, got_child, got_sibling = (t.view(bs, n) for t in links)
    assert got_index.tolist() == [[b * n + i for i in range(n)] for b in range(bs)]
    for b, d in enumerate(drafts):
        assert (got_child[b].tolist(), got_sibling[b].tolist()) == d.links()
        assert positions.view(bs, n)[b].tolist() == [seq_lens[b] + len(d.ancestors(i)) for i in range(n)]


def test_a_second_root_has_no_sibling():
    """N-gram pads its tree with nodes that see only themselves."""
    mask = torch.eye(3, dtype=torch.bool)
    _, positions, *links = blank(1, 3, torch.int64)
    tree.reconstruct_indices_from_tree_mask(mask.flatten(), torch.tensor([4]), positions, *links, 1, 3)
    assert positions.tolist() == [4, 4, 4]
    assert links[1].tolist() == links[2].tolist() == [[-1, -1, -1]]
