"""How many requests each key has under way."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from k25serve.server.gateway.auth.keys import Caller
from k25serve.server.gateway.errors import RateLimitedError


class KeyLimits:
    """Counts each key's requests, queued ones included. Belongs to one event loop."""

    def __init__(self, default: int | None, retry_after_s: int, divide_by: int = 1) -> None:
        self._default = default
        self._retry_after_s = retry_after_s
        self._divide_by = divide_by
        self._running: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, caller: Caller) -> Iterator[None]:
        """Counts one request of `caller` while the block runs.

        Raises:
            RateLimitedError: it has as many as it may.
        """
        limit = caller.max_concurrency or self._default
        if limit is not None and self._running[caller.name] >= max(1, limit // self._divide_by):
            raise RateLimitedError(
                f"This key has {limit} requests under way, as many as it may. Try again in {self._retry_after_s} s.",
                self._retry_after_s,
            )
        self._running[caller.name] += 1
        try:
            yield
        finally:
            self._running[caller.name] -= 1
            if not self._running[caller.name]:
                del self._running[caller.name]
