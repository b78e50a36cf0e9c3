"""Time that sets of intervals cover, each moment counted once, for all steps at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from k25serve.bench.trace.events import Ints


class Timeline:
    """Intervals of all steps, laid out so that steps never meet, even where they do in time.

    start, end [n] in ns; step [n] in 0..steps-1. Masks given to `covered` are in the order of these arguments.
    """

    def __init__(self, start: Ints, end: Ints, step: NDArray[np.integer[Any]], steps: int) -> None:
        self._steps = steps
        self._order = np.lexsort((start, step))
        origin = int(start.min()) if len(start) else 0
        length = (int(end.max()) if len(start) else 0) - origin + 1
        self._step = step[self._order]
        # Moved apart by a whole trace each, one running maximum serves every step.
        self._left = start[self._order] + (self._step * np.int64(length) - origin)
        self._right = end[self._order] + (self._step * np.int64(length) - origin)

    def covered(self, chosen: NDArray[np.bool_]) -> Ints:
        """Length of the union of the chosen intervals of each step, [steps]."""
        rows = chosen[self._order]
        left, right, step = self._left[rows], self._right[rows], self._step[rows]
        if len(left) == 0:
            return np.zeros(self._steps, np.int64)
        reached = np.maximum.accumulate(right)
        np.maximum(left[1:], reached[:-1], out=left[1:])
        np.subtract(right, left, out=right)
        np.maximum(right, 0, out=right)
        return total(right, step, self._steps)


def total(values: NDArray[np.integer[Any]], step: NDArray[np.integer[Any]], steps: int) -> Ints:
    """Sum of `values` by step, [steps]."""
    return np.bincount(step, weights=values, minlength=steps).astype(np.int64)
