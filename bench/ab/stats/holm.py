"""Correction for the number of comparisons that share one level (Holm 1979, step-down)."""

from collections.abc import Sequence


def rejected(p_values: Sequence[float], levels: Sequence[float]) -> list[bool]:
    """Which hypotheses fall. levels[j]: what the j-th smallest p has to reach; alpha / (m - j) where there is one look.

    With several looks each is the look's nominal level under an alpha of alpha / (m - j) (spending.py).
    """
    found = [False] * len(p_values)
    for j, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[i] > levels[j]:
            break
        found[i] = True
    return found


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p: below alpha exactly where `rejected` says so at a single look."""
    m, largest = len(p_values), 0.0
    found = [0.0] * m
    for j, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (m - j) * p_values[i]))
        found[i] = largest
    return found
