"""The dashboard of two arms: one column each, their ratio above."""

from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard, stat

from k25serve.deploy.grafana.frame import framed, one_arm
from k25serve.deploy.grafana.panels import THIRD, Query, lines, number

ARMS = (("A", "$a"), ("B", "$b"))


class Compared(NamedTuple):
    """A panel that each arm has: its lines as (recorded name, legend)."""

    title: str
    text: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    least: float = 0


COMPARED = (
    Compared(
        "time per output token",
        "Of whole streams, at the gateway.",
        "s",
        (("k25:tpot_seconds:p50_rate5m", "p50"), ("k25:tpot_seconds:p95_rate5m", "p95")),
    ),
    Compared(
        "time to first token",
        "From the request's last byte to the first text, reasoning included.",
        "s",
        (("k25:ttft_seconds:p50_rate5m", "p50"), ("k25:ttft_seconds:p95_rate5m", "p95")),
    ),
    Compared(
        "step",
        "Gap between reads with new tokens.",
        "s",
        (("k25:step_seconds:p50_rate5m", "p50"), ("k25:step_seconds:p95_rate5m", "p95")),
    ),
    Compared(
        "accept length",
        "Tokens per verify step; no line without speculation.",
        "short",
        (("k25:accept_length:rate5m", "accept length"),),
        least=1,
    ),
    Compared(
        "tokens a second and requests",
        "Generated tokens a second; requests that run and that wait.",
        "short",
        (
            ("k25:generation_tokens:rate5m", "tokens a second"),
            ("k25:running_requests", "running"),
            ("k25:waiting_requests", "waiting"),
        ),
    ),
    Compared(
        "failing and wasted",
        "Part of the requests that end in a 5xx; part of the tokens that nobody stayed for.",
        "percentunit",
        (("k25:errors:ratio_rate5m", "failing"), ("k25:wasted_tokens:ratio_rate5m", "wasted")),
    ),
)


def ab() -> dashboard.Dashboard:
    ratios = [
        _ratio("Time per output token", "k25:tpot_seconds:p50_rate5m", "Below 1, B is faster."),
        _ratio("Time to first token", "k25:ttft_seconds:p50_rate5m", "Below 1, B is faster."),
        _ratio("Step", "k25:step_seconds:p50_rate5m", "Below 1, B's step is shorter; it may hold fewer tokens."),
        _ratio("Accept length", "k25:accept_length:rate5m", "Above 1, B's drafts gain more."),
        _ratio("Tokens a second", "k25:generation_tokens:rate5m", "As offered, so no speed by itself."),
        _ratio("Requests a second", "k25:requests:rate5m", "The split: equal weights give 1."),
    ]
    columns = [
        lines(
            f"{name}: {one.title}",
            one.text,
            one.unit,
            *(Query(f'{metric}{{arm="{arm}"}}', legend) for metric, legend in one.lines),
            least=one.least,
        )
        for one in COMPARED
        for name, arm in ARMS
    ]
    experiment = [
        lines(
            "Split",
            "Share of the conversations that an arm gets; 0: it was stopped.",
            "percentunit",
            Query("max by (experiment, arm) (k25serve_gateway_experiment_weight)", "{{experiment}} {{arm}}"),
            span=THIRD,
        ),
        lines(
            "Requests",
            "A second. measured: in the statistics. moved: from a conversation of another arm that could not take it.",
            "reqps",
            Query(
                "sum by (experiment, arm, kind) (rate(k25serve_gateway_experiment_requests_total[5m]))",
                "{{experiment}} {{arm}} {{kind}}",
            ),
            Query(
                "sum by (experiment, arm, result) (rate(k25serve_gateway_experiment_shadow_copies_total[5m]))",
                "{{experiment}} copies to {{arm}} {{result}}",
            ),
            span=THIRD,
        ),
        lines(
            "Stopped",
            "1: the arm gets no more requests, for this guardrail or by hand.",
            "short",
            Query(
                "max by (experiment, arm, reason) (k25serve_gateway_experiment_stopped)",
                "{{experiment}} {{arm}} {{reason}}",
            ),
            span=THIRD,
        ),
    ]
    return framed(
        "ab",
        "k25serve A/B",
        "Two arms side by side, by the same definitions. A live picture is no verdict: traffic differs from minute to "
        "minute and from arm to arm. `k25serve ab report` says what an experiment has found.",
        [one_arm("a", "A", "vllm"), one_arm("b", "B", "sglang")],
        [("B / A, medians", ratios), ("A left, B right", columns), ("Experiment on live traffic", experiment)],
    )


def _ratio(title: str, metric: str, text: str) -> stat.Panel:
    expr = f'{metric}{{arm="$b"}} / ignoring (arm) {metric}{{arm="$a"}}'
    return number(f"{title}, B / A", text, "short", Query(expr, "B / A"))
