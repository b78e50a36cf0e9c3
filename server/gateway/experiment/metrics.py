"""An experiment's Prometheus families. What the statistics say is computed on demand, by `k25serve ab report`."""

from prometheus_client import CollectorRegistry, Counter, Gauge

PREFIX = "k25serve_gateway_experiment"


class ExperimentMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=PREFIX, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=PREFIX, registry=registry, multiprocess_mode="livemax")

        self.weight = gauge("weight", "Share of the conversations that the arm gets now, 0 to 1.", "experiment", "arm")
        self.stopped = gauge(
            "stopped", "1: the arm gets no more requests, for this guardrail or by hand.", "experiment", "arm", "reason"
        )
        self.requests = counter(
            "requests",
            "Requests that ended. measured: in the statistics; unmeasured: without a metric, such as a failed one; "
            "moved: from a conversation of another arm that could not take it.",
            "experiment",
            "arm",
            "kind",
        )
        self.write_failures = counter(
            "write_failures",
            "Failed attempts to write the state file. What was counted is kept and written later, for four hours.",
            "experiment",
        )
        self.shadow_copies = counter(
            "shadow_copies",
            "Copies of requests for the shadow arm. ok, failed: asked; dropped_full, dropped_not_ready, "
            "dropped_stopping: never asked; cancelled: asked when the gateway stopped.",
            "experiment",
            "arm",
            "result",
        )
        self.shadow_queue = Gauge(
            "shadow_queue",
            "Copies that wait for the shadow arm.",
            ("experiment", "arm"),
            namespace=PREFIX,
            registry=registry,
            multiprocess_mode="livesum",
        )
