"""The dashboard of the gateway: what it took in, refused, queued, and what it adds."""

from grafana_foundation_sdk.builders import dashboard

from k25serve.deploy.grafana.frame import all_arms, framed
from k25serve.deploy.grafana.panels import THIRD, Query, lines

ARM = '{arm=~"$arm"}'


def gateway() -> dashboard.Dashboard:
    requests = [
        lines(
            "Requests",
            "Taken in, a second; one that failed over counts at each arm.",
            "reqps",
            Query(f"k25:requests:rate5m{ARM}", "{{arm}}"),
            span=THIRD,
        ),
        lines(
            "Answers by status",
            "A second; 499: the client left before it had one.",
            "reqps",
            Query(f"sum by (arm, code) (rate(k25serve_gateway_responses_total{ARM}[5m]))", "{{arm}} {{code}}"),
            span=THIRD,
        ),
        lines(
            "In flight",
            "Generation requests at an engine.",
            "short",
            Query(f"sum by (arm) (k25serve_gateway_inflight{ARM})", "{{arm}}"),
            span=THIRD,
        ),
        lines(
            "Tokens by kind",
            "A second. cached is part of prompt, reasoning is part of completion.",
            "short",
            Query(f"sum by (arm, kind) (rate(k25serve_gateway_tokens_total{ARM}[5m]))", "{{arm}} {{kind}}"),
            span=THIRD,
        ),
        lines(
            "Wasted tokens",
            "Part of the tokens that nobody stayed for.",
            "percentunit",
            Query(f"k25:wasted_tokens:ratio_rate5m{ARM}", "{{arm}}"),
            Query("k25:limit:wasted_tokens", "limit"),
            span=THIRD,
        ),
        lines(
            "Clients that left",
            "A second, by what the request was doing.",
            "reqps",
            Query(f"sum by (arm, phase) (rate(k25serve_gateway_disconnects_total{ARM}[5m]))", "{{arm}} {{phase}}"),
            Query("sum by (result) (rate(k25serve_gateway_aborts_total[5m]))", "abort {{result}}"),
            span=THIRD,
        ),
    ]
    delay = [
        lines(
            "Own time",
            "99th percentile. pre: until the engine is called, queue included; post: after its last byte.",
            "s",
            Query(f"k25:gateway_overhead_seconds:p99_rate5m{ARM}", "{{arm}} {{phase}}"),
            Query("k25:limit:gateway_overhead_seconds", "limit"),
            span=THIRD,
        ),
        lines(
            "Event loop lag",
            "How much later than due a task woke up: it delays every stream.",
            "s",
            Query("histogram_quantile(0.99, sum by (le) (rate(k25serve_gateway_loop_lag_seconds_bucket[5m])))", "p99"),
            Query("histogram_quantile(0.5, sum by (le) (rate(k25serve_gateway_loop_lag_seconds_bucket[5m])))", "p50"),
            span=THIRD,
        ),
        lines(
            "Queue",
            "Requests that wait for a slot of the arm, and the 95th percentile of their wait.",
            "short",
            Query(f"sum by (arm) (k25serve_gateway_queue_depth{ARM})", "{{arm}} waiting"),
            Query(
                "histogram_quantile("
                f"0.95, sum by (arm, le) (rate(k25serve_gateway_queue_wait_seconds_bucket{ARM}[5m])))",
                "{{arm}} p95 seconds",
            ),
            span=THIRD,
        ),
    ]
    faults = [
        lines(
            "Failures of the engine",
            "A second, by type.",
            "reqps",
            Query(f"sum by (arm, type) (rate(k25serve_gateway_upstream_errors_total{ARM}[5m]))", "{{arm}} {{type}}"),
            Query(f"sum by (arm) (rate(k25serve_gateway_parse_skips_total{ARM}[5m]))", "{{arm}} unread frames"),
        ),
        lines(
            "Refused",
            "Requests a second that no engine was asked, by reason.",
            "reqps",
            Query("sum by (reason) (rate(k25serve_gateway_rejected_total[5m]))", "{{reason}}"),
        ),
        lines(
            "Failover",
            "Requests a second that another arm was asked for, since this one did not answer.",
            "reqps",
            Query(f"sum by (arm) (rate(k25serve_gateway_failovers_total{ARM}[5m]))", "{{arm}}"),
        ),
        lines(
            "Arms",
            "Ready: 1. Breaker: 0 closed, 1 half open, 2 open.",
            "short",
            Query(f"max by (arm) (k25serve_gateway_arm_ready{ARM})", "{{arm}} ready"),
            Query(f"max by (arm) (k25serve_gateway_breaker_state{ARM})", "{{arm}} breaker"),
        ),
    ]
    return framed(
        "gateway",
        "k25serve gateway",
        "What the gateway took in, refused and queued, and what it adds.",
        [all_arms()],
        [("Requests", requests), ("Delay", delay), ("Faults", faults)],
    )
