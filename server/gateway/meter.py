"""One request's measurements, from timestamps and readings to metrics."""

from collections.abc import Callable, Iterable

from k25serve.server.gateway.acceptance import SpecStats
from k25serve.server.gateway.ended import Ended, Outcome
from k25serve.server.gateway.metrics import Metrics, Target
from k25serve.server.gateway.step_gaps import StepGaps
from k25serve.server.gateway.usage import TOKENS, Reading, Usage

LEFT_UNANSWERED = 499


class RequestMeter:
    """Counts one generation request that the engine is asked.

    All times are seconds on one monotonic clock; `started` is when the request's last byte had come. `one_choice`:
    the answer is a single sequence, so the gaps between its tokens are the engine's steps. `on_end` is told the
    measurements, once.
    """

    def __init__(
        self,
        metrics: Metrics,
        target: Target,
        *,
        one_choice: bool,
        started: float,
        on_end: Callable[[Ended], None] | None = None,
    ) -> None:
        self._metrics = metrics
        self._children = metrics.bound(target)
        self._one_choice = one_choice
        self._started = started
        self._on_end = on_end
        self._first_token: float | None = None
        self._last_token = started
        self._last_read = started
        self._usage: Usage | None = None
        self._spec: SpecStats | None = None
        self._finish_reason: str | None = None
        self._token_reads = 0
        self._gaps: StepGaps | None = None
        self.code: int | None = None
        """The HTTP status, once it has been sent."""
        self.engine_error = False
        """The engine itself reported an error inside its stream."""
        self.finished = False
        self._children.requests.add(1)
        self._children.inflight.add(1)

    @property
    def saw_token(self) -> bool:
        return self._first_token is not None

    def called_engine(self, now: float) -> None:
        self._children.overhead_pre.observe(now - self._started)

    def read(self, now: float, readings: Iterable[Reading]) -> None:
        """Takes in what one read from the engine said."""
        self._last_read = now
        tokens = False
        for reading in readings:
            if reading.tokens:
                tokens = True
                self._token_reads += 1
                if reading is TOKENS:
                    continue
            if reading.usage is not None:
                self._usage = reading.usage
            if reading.spec is not None:
                self._spec = reading.spec
            if reading.finish is not None:
                self._finish_reason = reading.finish
            self._count_oddities(reading)
        if tokens:
            self._got_tokens(now)

    def read_tokens(self, now: float) -> None:
        """Takes in a read that said nothing but new tokens."""
        self._last_read = now
        self._token_reads += 1
        self._got_tokens(now)

    def _got_tokens(self, now: float) -> None:
        if self._first_token is None:
            self._first_token = now
            self._children.ttft.observe(now - self._started)
            if self._one_choice:
                self._gaps = StepGaps(self._children.step)
        elif self._gaps is not None:
            self._gaps.add(now - self._last_token, now)
        self._last_token = now

    def read_whole(self, now: float, reading: Reading) -> None:
        """Takes in an answer that came without streaming: it has no token times."""
        self._last_read = now
        self._usage, self._spec, self._finish_reason = reading.usage, reading.spec, reading.finish
        self._count_oddities(reading)

    def answered(self, now: float) -> None:
        """The answer's last byte has been handed on."""
        self._children.overhead_post.observe(now - self._last_read)

    def upstream_error(self, kind: str) -> None:
        self._metrics.upstream_errors.labels(self._children.target.arm, kind).inc()

    def finish(self, now: float, outcome: Outcome) -> None:
        """Closes the books; the first call counts."""
        if self.finished:
            return
        self.finished = True
        if self._gaps is not None:
            self._gaps.flush()
        children = self._children
        if outcome == "disconnected":
            children.disconnects("prefill" if self.code is None and not self.saw_token else "decode").add(1)
        children.inflight.add(-1)
        children.responses(self.code or (LEFT_UNANSWERED if outcome == "disconnected" else 500)).add(1)
        children.request(outcome).observe(now - self._started)
        wasted = 0
        if outcome in ("disconnected", "cancelled"):
            wasted = self._token_reads if self._usage is None else self._usage.completion
            children.wasted_tokens.add(wasted)
        if self._usage is not None:
            self._count_tokens(self._usage, outcome)
        if self._spec is not None:
            self._count_speculation(self._spec)
        if self._on_end is not None:
            self._on_end(self._ended(outcome, wasted))

    def _ended(self, outcome: Outcome, wasted: int) -> Ended:
        first = self._first_token
        return Ended(
            outcome=outcome,
            ttft=None if first is None else first - self._started,
            decode=None if first is None else self._last_token - first,
            usage=self._usage,
            wasted=wasted,
            finish=self._finish_reason,
            one_choice=self._one_choice,
        )

    def _count_oddities(self, reading: Reading) -> None:
        if reading.spec_invalid:
            self.upstream_error("spec_details")
        if reading.error:
            self.engine_error = True
            self.upstream_error("aborted" if reading.aborted else "error_frame")
        if reading.unreadable:
            self._metrics.parse_skips.labels(self._children.target.arm).inc()

    def _count_tokens(self, usage: Usage, outcome: Outcome) -> None:
        children = self._children
        children.prompt_tokens.add(usage.prompt)
        if usage.cached:
            children.cached_tokens.add(usage.cached)
        children.completion_tokens.add(usage.completion)
        if usage.reasoning:
            children.reasoning_tokens.add(usage.reasoning)
        if outcome == "ok" and self._one_choice and self._first_token is not None and usage.completion > 1:
            children.tpot.observe((self._last_token - self._first_token) / (usage.completion - 1))

    def _count_speculation(self, spec: SpecStats) -> None:
        children = self._children
        if spec.accept_length is not None:
            children.accept_length.observe(spec.accept_length)
        children.spec_steps.add(spec.steps)
        children.spec_draft_tokens.add(spec.proposed)
        children.spec_accepted_tokens.add(spec.accepted)
        for accepted, steps in enumerate(spec.histogram):
            children.spec_accept_hist(accepted).add(steps)
        for position, steps in enumerate(spec.reached):
            children.spec_accepted_per_pos(position).add(steps)
