"""Ends a fit behind a step, as a kill would."""

from k25serve.drafters.training.progress import Silent


class Killed(Exception):
    pass


class Stopper(Silent):
    """Raises Killed behind step `step`."""

    def __init__(self, step: int) -> None:
        self._left = step

    def advance(self, count: int = 1) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed
