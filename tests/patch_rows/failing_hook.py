"""A row's class whose hook fails."""

from typing import Any


class FailingHook:
    """Raises in its only hook."""

    def __init__(self, context: Any) -> None:
        self._process = context.here.process

    def fail(self, result: Any, *args: Any, **kwargs: Any) -> None:
        """After any call."""
        raise KeyError(f"no such key in the {self._process}")
