import random

import pytest
import torch

from k25serve.patches.reference import verify


def longest_walk(d, candidates, choices, limit):
    """By definition: the nodes from the root whose every step is the target's choice, cut at `limit` drafts."""
    node, path = 0, [0]
    while len(path) <= limit:
        match = [child for child in d.children(node) if candidates[child] == choices[node]]
        if not match:
            break
        node = match[0]
        path.append(node)
    return path


@pytest.mark.parametrize("bs", [1, 5])
@pytest.mark.parametrize(("topk", "depth", "n"), [(1, 3, 4), (2, 3, 6), (3, 4, 16), (2, 5, 15)])
@pytest.mark.parametrize("ints", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", ["depth", "narrow", "nodes"])
def test_accepts_the_targets_own_walk(draft, bs, topk, depth, n, ints, width):
    rng = random.Random(f"{bs}-{topk}-{depth}-{n}-{width}")
    drafts = [draft(rng, topk, depth, n) for _ in range(bs)]
    columns = {"depth": depth + 1, "narrow": 2, "nodes": n}[width]
    # Two tokens only, so that walks are long and siblings often tie: the first match wins.
    candidates = [[rng.randrange(2) for _ in range(n)] for _ in range(bs)]
    choices = [[rng.randrange(2) for _ in range(n)] for _ in range(bs)]
    links = [d.links() for d in drafts]
    predicts = torch.zeros(bs * n, dtype=torch.int32)
    accept_index = torch.full((bs, columns), -1, dtype=torch.int32)
    accept_token_num = torch.zeros(bs, dtype=torch.int32)

    verify.verify_tree_greedy(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accept_token_num,
        candidates=torch.tensor(candidates, dtype=ints),
        retrive_index=torch.arange(bs * n).view(bs, n),
        retrive_next_token=torch.tensor([child for child, _ in links]),
        retrive_next_sibling=torch.tensor([sibling for _, sibling in links]),
        target_predict=torch.tensor(choices, dtype=ints),
    )

    for b, d in enumerate(drafts):
        path = longest_walk(d, candidates[b], choices[b], columns - 1)
        assert accept_token_num[b] == len(path) - 1
        assert accept_index[b].tolist() == [b * n + node for node in path] + [-1] * (columns - len(path))
        assert [int(predicts[b * n + node]) for node in path] == [choices[b][node] for node in path]
    walked = {int(row) for row in accept_index.flatten() if row >= 0}
    assert not predicts[[row for row in range(bs * n) if row not in walked]].any()
