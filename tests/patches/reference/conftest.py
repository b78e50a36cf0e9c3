"""Random draft trees as EAGLE makes them, and what they mean, written from the definition."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Drafted:
    """One request's draft: `parents[i]` is node i's parent, None for the root; the rest is SGLang's encoding."""

    parents: list[int | None]
    parent_list: list[int]
    selected_index: list[int]

    def ancestors(self, node: int) -> list[int]:
        """Nearest first, root last."""
        parent = self.parents[node]
        return [] if parent is None else [parent, *self.ancestors(parent)]

    def children(self, node: int) -> list[int]:
        return [i for i, parent in enumerate(self.parents) if parent == node]

    def links(self) -> tuple[list[int], list[int]]:
        """(first child, next sibling) of every node, -1 for none."""
        first_child = [next(iter(self.children(node)), -1) for node in range(len(self.parents))]
        sibling = [-1] * len(self.parents)
        for node in range(len(self.parents)):
            family = self.children(node)
            for left, right in itertools.pairwise(family):
                sibling[left] = right
        return first_child, sibling


def _draft(rng: random.Random, topk: int, depth: int, n: int) -> Drafted:
    """Grow `topk` branches for `depth` steps, then select `n - 1` candidates, each with all its ancestors.

    Candidates are numbered as in SGLang: step 0 has topk, each later step topk children for each of topk survivors.
    """
    parent_of: dict[int, int | None] = dict.fromkeys(range(topk))
    survivors = list(range(topk))
    parent_list = [-1, *survivors] if depth > 1 else []
    for step in range(1, depth):
        first = topk + (step - 1) * topk * topk
        parent_of |= {first + i * topk + j: survivor for i, survivor in enumerate(survivors) for j in range(topk)}
        survivors = rng.sample(range(first, first + topk * topk), topk)
        if step < depth - 1:
            parent_list += survivors
    selected: set[int] = set()
    while len(selected) < n - 1:
        candidate = rng.choice(sorted(set(parent_of) - selected))
        if parent_of[candidate] is None or parent_of[candidate] in selected:
            selected.add(candidate)
    order = sorted(selected)
    node_of: dict[int | None, int] = {None: 0} | {candidate: i for i, candidate in enumerate(order, start=1)}
    return Drafted([None, *(node_of[parent_of[candidate]] for candidate in order)], parent_list, order)


@pytest.fixture(scope="session")
def draft() -> Callable[..., Drafted]:
    return _draft
