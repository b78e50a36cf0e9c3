"""Greedy verification of a draft tree."""

from torch import Tensor


def verify_tree_greedy(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Walk each tree from the root along the children that the target itself would have chosen.

    At a node the target's choice is `target_predict`; the child with that token is accepted, and the walk ends where
    there is none. The target's choice at the last accepted node is the bonus token.

    Shapes (bs requests, n nodes, at most `width - 1` accepted drafts): `candidates`, `target_predict` int [bs, n];
    `retrive_*` int64 [bs, n] (see `tree.py`; the spelling is SGLang's); written: `predicts` int32 [bs * n] at
    accepted rows = the token that follows; `accept_index` int32 [bs, width], filled with -1 by the caller = flat rows
    of the root and the accepted drafts; `accept_token_num` int32 [bs] = accepted drafts, without the bonus.
    Called with keywords as `verify_tree_greedy_cpu` from
    `kernels/ops/speculative/spec_tree.py:verify_tree_greedy_func` (SGLang 0.5.23).
    """
    width = accept_index.shape[1]
    rows, children, siblings = retrive_index.tolist(), retrive_next_token.tolist(), retrive_next_sibling.tolist()
    tokens, choices = candidates.tolist(), target_predict.tolist()
    for b in range(len(rows)):
        node, accepted = 0, [rows[b][0]]
        while len(accepted) < width:
            child = children[b][node]
            while child != -1 and tokens[b][child] != choices[b][node]:
                child = siblings[b][child]
            if child == -1:
                break
            predicts[accepted[-1]] = choices[b][node]
            accepted.append(rows[b][child])
            node = child
        predicts[accepted[-1]] = choices[b][node]
        for column, row in enumerate(accepted):
            accept_index[b, column] = row
        accept_token_num[b] = len(accepted) - 1
