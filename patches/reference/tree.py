"""Draft trees: from EAGLE's selection or n-gram's mask to links, positions and the attention mask.

A tree has `n` nodes a request, node 0 the root (the bonus token). It is kept as three tensors [bs, n] int64:
`retrieve_index` (the node's row in the flat batch, `b * n + i`), `retrieve_next_token` (first child, or -1) and
`retrieve_next_sibling` (next child of the same parent, or -1). Everything is written in place.
"""

import torch
from torch import Tensor

QLEN_ONLY = 1
"""`TreeMaskMode.QLEN_ONLY` of `kernels/ops/speculative/spec_tree.py`: a mask [bs, n, n], the prefix always visible."""


def build_tree(
    parent_list: Tensor,
    selected_index: Tensor,
    seq_lens: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Build the verify tree from the draft tokens that EAGLE selected.

    Candidate `c` (a flat index over draft steps) has the parent slot `c // topk`: slot 0 is the root, slot `s` is
    candidate `parent_list[b, s]`. Node `i` is candidate `selected_index[b, i - 1]`. A node whose parent was not
    selected gets no link, so that verification never reaches it, and sees only the root and itself.

    Shapes: `parent_list` [bs, slots] (slots may be 0 at depth 1); `selected_index` [bs, n - 1], ascending; `seq_lens`
    [bs]; `tree_mask` bool [bs * n * n] (row: node, column: what it may see); `positions` [bs * n] = seq_len + depth
    of the node; `retrieve_*` [bs, n], filled with -1 by the caller.
    Called as `build_tree_kernel_efficient_cpu` from
    `kernels/ops/speculative/spec_tree.py:build_tree_kernel_efficient_func` (SGLang 0.5.23). Raises ValueError for
    another mask mode than QLEN_ONLY, the only one SGLang uses on the CPU.
    """
    if int(tree_mask_mode) != QLEN_ONLY:
        raise ValueError(
            f"tree_mask_mode {int(tree_mask_mode)} is not supported on the CPU: use {QLEN_ONLY} (QLEN_ONLY)"
        )
    n, bs = draft_token_num, seq_lens.numel()
    mask = torch.zeros(bs, n, n, dtype=torch.bool)
    mask[:, :, 0] = True
    depths = [[0] * n for _ in range(bs)]
    slots, selections = parent_list.tolist(), selected_index.tolist()
    for b in range(bs):
        parents = _parents(slots[b], selections[b], topk)
        for node in range(1, n):
            path = _path_to_root(node, parents, depth)
            mask[b, node, path] = True
            depths[b][node] = len(path)
        for node in range(n - 1, 0, -1):
            parent = parents[node]
            if parent is not None:
                retrieve_next_sibling[b, node] = retrieve_next_token[b, parent]
                retrieve_next_token[b, parent] = node
    retrieve_index[:] = torch.arange(bs * n).view(bs, n)
    tree_mask[: bs * n * n] = mask.flatten()
    positions[: bs * n] = (seq_lens[:, None] + torch.tensor(depths).view(bs, n)).flatten()


def reconstruct_indices_from_tree_mask(
    tree_mask: Tensor,
    verified_seq_len: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Links and positions of n-gram's tree, from its mask alone.

    Node `j < i` is an ancestor of `i` where the mask's row `i` has column `j` set; the parent is the largest ancestor.
    A node without ancestors has no next sibling.

    Shapes: `tree_mask` bool [bs * n * n]; `verified_seq_len` [bs]; `positions` [bs * n]; `retrieve_*` [bs, n] or
    flat.
    Called from `kernels/ops/speculative/reconstruct_tree.py:reconstruct_indices_from_tree_mask_func` (SGLang 0.5.23).
    """
    bs, n = batch_size, draft_token_num
    node = torch.arange(n)
    ancestors = tree_mask[: bs * n * n].view(bs, n, n) & (node < node[:, None])
    parent = torch.where(ancestors, node, -1).amax(2)
    first_child = torch.where(ancestors, node[:, None], n).amin(1)
    later_with_same_parent = (parent[:, :, None] == parent[:, None, :]) & (node[:, None] > node)
    sibling = torch.where(later_with_same_parent, node[:, None], n).amin(1)

    positions[: bs * n] = (ancestors.sum(2) + verified_seq_len[:, None]).flatten()
    _fill(retrieve_index, torch.arange(bs * n))
    _fill(retrieve_next_token, torch.where(first_child < n, first_child, -1))
    _fill(retrieve_next_sibling, torch.where((sibling < n) & (parent >= 0), sibling, -1))


def _fill(destination: Tensor, values: Tensor) -> None:
    destination.view(-1)[: values.numel()] = values.flatten()


def _parents(slots: list[int], selection: list[int], topk: int) -> list[int | None]:
    """Parent node of every node; None for the root and for nodes whose parent was not selected."""
    node_of = {candidate: i for i, candidate in reversed(list(enumerate(selection, start=1)))}
    parents: list[int | None] = [None]
    for candidate in selection:
        slot = candidate // topk
        parents.append(0 if slot == 0 else node_of.get(slots[slot]))
    return parents


def _path_to_root(node: int, parents: list[int | None], depth: int) -> list[int]:
    """The node and its ancestors below the root, at most `depth` of them."""
    path: list[int] = []
    current: int | None = node
    while current and len(path) < depth:
        path.append(current)
        current = parents[current]
    return path
