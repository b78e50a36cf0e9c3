"""The gateway's Prometheus families, one set for each app.

Labels never hold a user, a key, a request id, a prompt or a path that a client chose; a model name that isn't served
is `other`.
"""

from functools import cache
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from k25serve.server.gateway import buckets
from k25serve.server.gateway.direct import Count, Observations

PREFIX = "k25serve_gateway"
NO_ARM = "none"
_GaugeMode = Literal["livesum", "livemax", "livemin"]
OTHER_MODEL = "other"


class Target(NamedTuple):
    """The labels that most families share: who answers, for which model, streaming or not."""

    arm: str
    model: str
    stream: str


REJECTED = Target(NO_ARM, OTHER_MODEL, "false")
"""Requests that never reached an arm."""


class Metrics:
    """All families. `registry` must not hold another app's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Workers can't share them, and both ways of running have to show the same names.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=PREFIX, registry=registry)

        def gauge(name: str, text: str, *labels: str, mode: _GaugeMode) -> Gauge:
            return Gauge(name, text, labels, namespace=PREFIX, registry=registry, multiprocess_mode=mode)

        def histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, namespace=PREFIX, registry=registry, buckets=bounds)

        target = Target._fields
        self.requests = counter(
            "requests", "Requests under /v1 that were taken in; one that failed over counts at each arm.", *target
        )
        self.responses = counter(
            "responses",
            "Answered requests by HTTP status; 499: the client left before it had one. requests - responses = "
            "unanswered.",
            *target,
            "code",
        )
        self.inflight = gauge("inflight", "Generation requests at an engine now.", *target, mode="livesum")
        self.ttft = histogram(
            "ttft_seconds",
            "Streams: from the request's last byte to the first non-empty content, reasoning or tool-call delta, in "
            "seconds.",
            buckets.TTFT_SECONDS,
            *target,
        )
        self.step = histogram(
            "step_seconds",
            "Streams with one choice: gap between reads that carry new tokens, in seconds. It is one decode or verify "
            "step of the engine, which under speculation gives several tokens: not a time per token.",
            buckets.STEP_SECONDS,
            *target,
        )
        self.tpot = histogram(
            "tpot_seconds",
            "Streams with one choice: (last token - first token) / (completion tokens - 1) of a whole request, in "
            "seconds.",
            buckets.STEP_SECONDS,
            *target,
        )
        self.request = histogram(
            "request_seconds",
            "From the request's last byte to the answer's last byte, seconds, by how it ended.",
            buckets.REQUEST_SECONDS,
            *target,
            "outcome",
        )
        self.overhead = histogram(
            "overhead_seconds",
            "The gateway's own time, seconds. pre: from the request's last byte until the engine is called, "
            "the wait in the queue and arms tried before included; queue_wait_seconds tells the wait alone. "
            "post: from the engine's last byte until the answer's last byte is handed on.",
            buckets.OVERHEAD_SECONDS,
            *target,
            "phase",
        )
        self.tokens = counter(
            "tokens",
            "Tokens as the engine counted them. cached is part of prompt, reasoning is part of completion. wasted: "
            "given out for answers that nobody stayed for; where the engine had not counted yet, one for each chunk "
            "that has text, so a lower bound under speculation.",
            *target,
            "kind",
        )
        self.accept_length = histogram(
            "accept_length",
            "Tokens per verify step of one request, the target's own included: 1 + accepted / steps. "
            "No sample without a verify step.",
            buckets.ACCEPT_LENGTH,
            *target,
        )
        self.spec_steps = counter("spec_steps", "Verify steps.", *target)
        self.spec_draft_tokens = counter(
            "spec_draft_tokens", "Draft tokens proposed for verification; accept rate = accepted / proposed.", *target
        )
        self.spec_accepted_tokens = counter(
            "spec_accepted_tokens", "Draft tokens accepted; the target's own token of each step isn't one.", *target
        )
        self.spec_accept_hist = counter(
            "spec_accept_hist", "Verify steps that accepted exactly this many draft tokens.", *target, "accepted"
        )
        self.spec_accepted_per_pos = counter(
            "spec_accepted_tokens_per_pos",
            "Verify steps that accepted the draft token at this position (0 is the first), so all before it too; "
            "divided by spec_steps it is the acceptance rate of the position.",
            *target,
            "position",
        )
        self.disconnects = counter(
            "disconnects",
            "Clients that left early. upload: before the request was whole; queued: in the gateway's queue; "
            "prefill: before the first token (without streaming: before the answer); decode: after it.",
            *target,
            "phase",
        )
        self.aborts = counter("aborts", "Aborts sent to the engine, by result.", "result")
        self.upstream_errors = counter("upstream_errors", "Failures of the engine, by type.", "arm", "type")
        self.rejected = counter("rejected", "Requests that the engine was never asked, by reason.", "reason")
        self.parse_skips = counter(
            "parse_skips", "Frames and answers passed on unread, since they were not JSON.", "arm"
        )
        self.failovers = counter(
            "failovers", "Requests that another arm was asked for, since this one did not answer.", "arm"
        )
        self.conversations_logged = counter(
            "conversations_logged",
            "Good answers for the conversation log. written: in its file; dropped: the queue before the disk was full; "
            "failed: the disk refused it, or has refused one before.",
            "outcome",
        )
        self.queue_depth = gauge("queue_depth", "Requests that wait for a slot of the arm.", "arm", mode="livesum")
        self.queue_wait = histogram(
            "queue_wait_seconds",
            "From the request's last byte until it had a slot of the arm, seconds.",
            buckets.TTFT_SECONDS,
            "arm",
        )
        self.breaker_state = gauge(
            "breaker_state", "0 closed: calls pass; 1 half open: one is on trial; 2 open.", "arm", mode="livemax"
        )
        self.arm_ready = gauge("arm_ready", "1 while the arm can answer, else 0.", "arm", mode="livemin")
        self.loop_lag = histogram(
            "loop_lag_seconds",
            "How much later than due the event loop woke a task up, seconds. Long lags delay every stream.",
            buckets.OVERHEAD_SECONDS,
        )
        self.bound = cache(self._bound)

    def _bound(self, target: Target) -> "TargetMetrics":
        return TargetMetrics(self, target)


class TargetMetrics:
    """The families of one target, with their labels filled in once: a lookup costs more than an observation."""

    def __init__(self, metrics: Metrics, target: Target) -> None:
        self.target = target
        self.requests = Count(metrics.requests.labels(*target))
        self.inflight = Count(metrics.inflight.labels(*target))
        self.ttft = Observations(metrics.ttft.labels(*target))
        self.step = Observations(metrics.step.labels(*target))
        self.tpot = Observations(metrics.tpot.labels(*target))
        self.accept_length = Observations(metrics.accept_length.labels(*target))
        self.spec_steps = Count(metrics.spec_steps.labels(*target))
        self.spec_draft_tokens = Count(metrics.spec_draft_tokens.labels(*target))
        self.spec_accepted_tokens = Count(metrics.spec_accepted_tokens.labels(*target))
        self.overhead_pre = Observations(metrics.overhead.labels(*target, "pre"))
        self.overhead_post = Observations(metrics.overhead.labels(*target, "post"))
        self.prompt_tokens = Count(metrics.tokens.labels(*target, "prompt"))
        self.cached_tokens = Count(metrics.tokens.labels(*target, "cached"))
        self.completion_tokens = Count(metrics.tokens.labels(*target, "completion"))
        self.wasted_tokens = Count(metrics.tokens.labels(*target, "wasted"))
        self.reasoning_tokens = Count(metrics.tokens.labels(*target, "reasoning"))
        self.spec_accept_hist = cache(lambda accepted: Count(metrics.spec_accept_hist.labels(*target, str(accepted))))
        self.spec_accepted_per_pos = cache(
            lambda position: Count(metrics.spec_accepted_per_pos.labels(*target, str(position)))
        )
        self.responses = cache(lambda code: Count(metrics.responses.labels(*target, str(code))))
        self.request = cache(lambda outcome: Observations(metrics.request.labels(*target, outcome)))
        self.disconnects = cache(lambda phase: Count(metrics.disconnects.labels(*target, phase)))
