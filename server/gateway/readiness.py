"""Whether the engine can answer, as one object that a supervisor or a probe sets and every request reads."""

from k25serve.server.gateway.errors import NotReadyError


class Readiness:
    """Starts as not ready. Belongs to one event loop; not for threads."""

    def __init__(self, reason: str = "the engine is starting") -> None:
        self._reason: str | None = reason

    @property
    def ready(self) -> bool:
        return self._reason is None

    @property
    def reason(self) -> str | None:
        """Why not, in words for users; None when ready."""
        return self._reason

    def set_ready(self) -> None:
        self._reason = None

    def set_not_ready(self, reason: str) -> None:
        self._reason = reason

    def require(self, retry_after_s: int) -> None:
        """Raises NotReadyError unless ready."""
        if self._reason is not None:
            raise NotReadyError(
                f"Not ready: {self._reason}. Try again in {retry_after_s} s; GET /ready says when.", retry_after_s
            )
