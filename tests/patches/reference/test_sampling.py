import itertools
import random

import pytest
import torch
from scipy.stats import chisquare

from k25serve.patches.reference import sampling

VOCAB = 5


def renormalised(row, kept):
    total = sum(p for token, p in enumerate(row) if token in kept)
    return [p / total if token in kept else 0.0 for token, p in enumerate(row)]


def random_probs(rows, vocab):
    return torch.softmax(torch.randn(rows, vocab) * 2, -1)


def test_top_k_keeps_the_k_most_probable():
    probs, ks = random_probs(6, 37), [1, 2, 3, 37, 1000, 1 << 30]
    got = sampling.top_k_renorm_prob(probs, torch.tensor(ks, dtype=torch.int32))
    for row, k, out in zip(probs.tolist(), ks, got, strict=True):
        kept = sorted(range(37), key=lambda token: -row[token])[:k]
        torch.testing.assert_close(out, torch.tensor(renormalised(row, kept)), atol=1e-6, rtol=1e-5)
    assert got.dtype == probs.dtype


def test_top_k_ties_keep_exactly_k():
    got = sampling.top_k_renorm_prob(torch.full((1, 8), 0.125), torch.tensor([3]))
    assert got.tolist() == [[pytest.approx(1 / 3)] * 3 + [0.0] * 5]


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    probs, ps = random_probs(6, 37), [0.0, 0.05, 0.5, 0.9, 0.999, 1.0]
    got = sampling.top_p_renorm_prob(probs, torch.tensor(ps))
    for row, p, out in zip(probs.tolist(), ps, got, strict=True):
        kept, mass = [], 0.0
        for token in sorted(range(37), key=lambda token: -row[token]):
            if kept and mass >= p:
                break
            kept.append(token)
            mass += row[token]
        torch.testing.assert_close(out, torch.tensor(renormalised(row, kept)), atol=1e-6, rtol=1e-5)


def test_top_p_of_one_keeps_a_long_tail():
    probs = torch.cat([torch.tensor([1.0 - 1e-7]), torch.full((100_000,), 1e-12)])[None]
    assert (sampling.top_p_renorm_prob(probs, torch.tensor([1.0])) > 0).all()


def run_tree(d, tokens, probs, repeats, *, width, coins=None, single=1.0, acc=1.0):
    """Sample `repeats` independent copies of one request; the emitted tokens of each."""
    n = len(tokens)
    child, sibling = d.links()
    rows = (repeats, n)
    predicts = torch.zeros(repeats * n, dtype=torch.int32)
    accept_index = torch.full((repeats, width), -1, dtype=torch.int32)
    accepted = torch.zeros(repeats, dtype=torch.int32)
    sampling.tree_speculative_sampling_target_only(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accepted,
        candidates=torch.tensor(tokens).expand(rows),
        retrive_index=torch.arange(repeats * n).view(rows),
        retrive_next_token=torch.tensor(child).expand(rows),
        retrive_next_sibling=torch.tensor(sibling).expand(rows),
        uniform_samples=torch.rand(rows) if coins is None else torch.full(rows, coins),
        uniform_samples_for_final_sampling=torch.rand(repeats) if coins is None else torch.full((repeats,), coins),
        target_probs=probs.expand(repeats, n, VOCAB),
        draft_probs=torch.zeros(1),
        threshold_single=single,
        threshold_acc=acc,
        deterministic=True,
    )
    emitted = []
    for b in range(repeats):
        path = [int(row) for row in accept_index[b] if row >= 0]
        assert len(path) == accepted[b] + 1
        emitted.append(tuple(int(predicts[row]) for row in path))
        assert [tokens[row - b * n] for row in path[1:]] == list(emitted[-1][:-1])
    return emitted


def exact(d, tokens, probs, width):
    """Probability of every emitted sequence if each token is drawn from the target alone."""
    law = {}

    def walk(node, sequence, probability):
        for token in range(VOCAB):
            p = probability * float(probs[node, token])
            child = [c for c in d.children(node) if tokens[c] == token]
            if child and len(sequence) < width - 1:
                walk(child[0], (*sequence, token), p)
            else:
                law[(*sequence, token)] = law.get((*sequence, token), 0.0) + p

    walk(0, (), 1.0)
    return law


@pytest.mark.parametrize(("topk", "depth", "n"), [(1, 3, 4), (2, 3, 6), (3, 2, 8)])
@pytest.mark.parametrize("filtered", [False, True])
def test_tree_sampling_has_exactly_the_targets_distribution(draft, topk, depth, n, filtered):
    d = draft(random.Random(n), topk, depth, n)
    tokens = [0] * n
    for node in range(n):
        for child, token in zip(d.children(node), random.Random(node).sample(range(VOCAB), VOCAB), strict=False):
            tokens[child] = token
    probs = random_probs(n, VOCAB)
    if filtered:
        probs = sampling.top_k_renorm_prob(probs, torch.full((n,), 3))
        probs = sampling.top_p_renorm_prob(probs, torch.full((n,), 0.9))
    repeats = 6000
    law = exact(d, tokens, probs, depth + 1)
    assert sum(law.values()) == pytest.approx(1, abs=1e-5)

    emitted = run_tree(d, tokens, probs, repeats, width=depth + 1)

    counts = {sequence: emitted.count(sequence) for sequence in set(emitted)}
    assert all(law.get(sequence, 0) > 0 for sequence in counts)
    likely = [sequence for sequence, p in law.items() if p * repeats >= 5]
    observed = [counts.get(sequence, 0) for sequence in likely]
    expected = [law[sequence] * repeats for sequence in likely]
    observed.append(repeats - sum(observed))
    expected.append(repeats - sum(expected))
    if expected[-1] < 5:
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    assert chisquare(observed, expected, sum_check=False).pvalue > 1e-3


def test_one_hot_rows_give_the_arg_max_for_every_coin(draft):
    """What a greedy request in a sampled batch looks like: top-k 1."""
    d = draft(random.Random(0), 1, 3, 4)
    probs = torch.eye(VOCAB)[[2, 3, 1, 4]]
    for coin in (0.0, 0.5, 1 - 2**-24):
        assert run_tree(d, [0, 2, 3, 0], probs, 1, width=4, coins=coin) == [(2, 3, 1)]


def test_children_with_all_the_mass_are_accepted_by_the_largest_coin(draft):
    """In fp32 the three thirds add up to less than the largest coin."""
    d = draft(random.Random(0), 3, 1, 4)
    probs = torch.tensor([[1 / 3, 1 / 3, 1 / 3 - 1e-7, 0, 0]] * 4)
    for repeat in itertools.permutations([0, 1, 2]):
        ((first, _),) = run_tree(d, [0, *repeat], probs, 1, width=2, coins=1 - 2**-24)
        assert first == repeat[-1]


def test_lower_thresholds_accept_more(draft):
    d = draft(random.Random(0), 1, 1, 2)
    probs = torch.tensor([[0.3, 0.7, 0, 0, 0]] * 2)
    for kwargs, accepts in (({}, False), ({"single": 0.25}, True), ({"acc": 0.5}, True)):
        ((*drafts, _),) = run_tree(d, [0, 0], probs, 1, width=2, coins=0.5, **kwargs)
        assert drafts == ([0] if accepts else [])


@pytest.mark.parametrize("all_greedy", [True, False])
def test_only_an_all_greedy_batch_is_verified_greedily(all_greedy):
    platform = {"is_cpu": True, "is_hip": False, "is_xpu": False}
    assert sampling.verify_uses_greedy(is_all_greedy=all_greedy, use_rejection_sampling=False, **platform) is all_greedy
    with pytest.raises(NotImplementedError, match="--speculative-use-rejection-sampling"):
        sampling.verify_uses_greedy(is_all_greedy=all_greedy, use_rejection_sampling=True, **platform)
