"""Row accepted_tokens: how many draft tokens each verify step of each request accepted."""

from collections.abc import Callable
from typing import Any

from k25serve.patches.context import Context
from k25serve.patches.hooks.rank import counts_here
from k25serve.patches.hooks.tally import Tally

NAME = "k25serve_engine_accepted_tokens_per_step"
HELP = (
    "Draft tokens accepted in one verify step of one request, without the bonus token: 1 + sum / count is "
    "accept_length, count is the number of verify steps."
)
MOST = 16


class AcceptedTokens:
    """Counts on the first rank; all ranks accept the same tokens."""

    def __init__(self, context: Context) -> None:
        self._tally: Tally | None = None
        self._decided = False

    def step(self, result: None, request: Any, num_correct_drafts: int) -> None:
        """After `Req.update_spec_correct_drafts_histogram`, which SGLang calls once a request and verify step."""
        tally = self._decide()
        if tally is not None:
            tally.add(num_correct_drafts)

    def idle(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `Scheduler.on_idle`, which may sleep."""
        if self._tally is not None:
            self._tally.flush()
        return original(*args, **kwargs)

    def _decide(self) -> Tally | None:
        if not self._decided:
            self._decided = True
            if counts_here():
                from prometheus_client import Histogram

                self._tally = Tally(Histogram(NAME, HELP, buckets=range(MOST + 1)))
        return self._tally
