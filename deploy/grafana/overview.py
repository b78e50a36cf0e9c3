"""The dashboard for a first look: does it serve, how fast, how full."""

from grafana_foundation_sdk.builders import dashboard

from k25serve.deploy.grafana.frame import all_arms, framed
from k25serve.deploy.grafana.panels import Query, lines, number

ARM = '{arm=~"$arm"}'


def overview() -> dashboard.Dashboard:
    now = [
        number(
            "Ready",
            "1: the engine has generated a token and answers. 0: it loads, or it is gone.",
            "short",
            Query(f"max by (arm) (k25serve_gateway_arm_ready{ARM})", "{{arm}}"),
            steps=[(None, "red"), (1, "green")],
        ),
        number(
            "Tokens a second",
            "Generated, all requests together.",
            "short",
            Query(f"k25:generation_tokens:rate5m{ARM}", "{{arm}}"),
        ),
        number(
            "Accept length",
            "Tokens per verify step; 1 without any accepted draft token.",
            "short",
            Query(f"k25:accept_length:rate5m{ARM}", "{{arm}}"),
        ),
        number(
            "Running", "Requests that the engine works on.", "short", Query(f"k25:running_requests{ARM}", "{{arm}}")
        ),
        number(
            "Waiting",
            "Requests in the gateway's queue and the engine's.",
            "short",
            Query(f"k25:waiting_requests{ARM}", "{{arm}}"),
        ),
        number(
            "Failing",
            "Part of the requests that end in a 5xx.",
            "percentunit",
            Query(f"k25:errors:ratio_rate5m{ARM}", "{{arm}}"),
            steps=[(None, "green"), (0.05, "red")],
        ),
    ]
    speed = [
        lines(
            "Tokens",
            "Tokens a second. Prompt tokens are counted when SGLang has answered, generated ones as they come.",
            "short",
            Query(f"k25:generation_tokens:rate5m{ARM}", "{{arm}} generated"),
            Query(f"k25:prompt_tokens:rate5m{ARM}", "{{arm}} prompt"),
        ),
        lines(
            "Time per output token",
            "Of whole streams, at the gateway: the speed that a reader sees.",
            "s",
            Query(f"k25:tpot_seconds:p50_rate5m{ARM}", "{{arm}} p50"),
            Query(f"k25:tpot_seconds:p95_rate5m{ARM}", "{{arm}} p95"),
        ),
        lines(
            "Time to first token",
            "From the request's last byte to the first text, reasoning included.",
            "s",
            Query(f"k25:ttft_seconds:p50_rate5m{ARM}", "{{arm}} p50"),
            Query(f"k25:ttft_seconds:p95_rate5m{ARM}", "{{arm}} p95"),
        ),
        lines(
            "Accept length",
            "Tokens per verify step. Below the line speculation may cost more than it gains.",
            "short",
            Query(f"k25:accept_length:rate5m{ARM}", "{{arm}}"),
            Query("k25:limit:accept_length", "limit"),
            least=1,
        ),
    ]
    load = [
        lines(
            "Requests",
            "Running in the engine; waiting in the gateway's queue and the engine's.",
            "short",
            Query(f"k25:running_requests{ARM}", "{{arm}} running"),
            Query(f"k25:waiting_requests{ARM}", "{{arm}} waiting"),
        ),
        lines(
            "KV cache in use",
            "When it is full, requests wait or are taken back.",
            "percentunit",
            Query(f"k25:kv_cache_usage:ratio{ARM}", "{{arm}}"),
        ),
        lines(
            "Answers",
            "Requests a second by how they ended.",
            "reqps",
            Query(
                f"sum by (arm, outcome) (rate(k25serve_gateway_request_seconds_count{ARM}[5m]))", "{{arm}} {{outcome}}"
            ),
        ),
        lines(
            "Alerts",
            "1 while an alert's condition holds (pending), or has held for its time (firing).",
            "short",
            Query(
                'max by (alertname, alertstate, arm) (ALERTS{alertname=~"K25.*"})',
                "{{alertname}} {{arm}} {{alertstate}}",
            ),
        ),
    ]
    return framed(
        "overview",
        "k25serve overview",
        "Does it serve, how fast, how full.",
        [all_arms()],
        [("Now", now), ("Speed", speed), ("Load", load)],
    )
