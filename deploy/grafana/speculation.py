"""The dashboard of speculation: what drafts gain, and what a step costs."""

from grafana_foundation_sdk.builders import dashboard

from k25serve.deploy.grafana.frame import all_arms, framed
from k25serve.deploy.grafana.panels import THIRD, Query, distribution, lines

ARM = '{arm=~"$arm"}'


def speculation() -> dashboard.Dashboard:
    gain = [
        lines(
            "Accept length",
            "Tokens per verify step, the target's own included: 1 + accepted / steps, for either engine.",
            "short",
            Query(f"k25:accept_length:rate5m{ARM}", "{{arm}}"),
            Query("k25:limit:accept_length", "limit"),
            span=THIRD,
            least=1,
        ),
        lines(
            "Accepted tokens",
            "Draft tokens a second that the target accepted: what speculation adds to the verify steps' own tokens.",
            "short",
            Query(f"k25:accepted_tokens:rate5m{ARM}", "{{arm}} accepted"),
            Query(f"k25:spec_steps:rate5m{ARM}", "{{arm}} verify steps"),
            span=THIRD,
        ),
        lines(
            "Share of output from drafts",
            "Part of the verify steps' tokens that was drafted.",
            "percentunit",
            Query(f"k25:draft_share:ratio_rate5m{ARM}", "{{arm}}"),
            span=THIRD,
        ),
    ]
    where = [
        lines(
            "Acceptance by position",
            "Part of the verify steps that accepted the draft token at a position. Where a line nears 0, drafting so "
            "far costs a step's time for nothing.",
            "percentunit",
            Query(f"k25:accept_at_position:ratio_rate5m{ARM}", "{{arm}} position {{position}}"),
        ),
        lines(
            "Steps by accepted tokens",
            "Verify steps a second that accepted exactly so many draft tokens; as the gateway is told.",
            "short",
            Query(
                f"sum by (arm, accepted) (rate(k25serve_gateway_spec_accept_hist_total{ARM}[5m]))",
                "{{arm}} {{accepted}} accepted",
            ),
        ),
        distribution(
            "Accept length by request",
            "Requests a second by their accept length: one hump is one kind of traffic, two are two.",
            "short",
            f"sum by (le) (rate(k25serve_gateway_accept_length_bucket{ARM}[5m]))",
        ),
        lines(
            "Draft configuration",
            "SGLang's draft steps and tokens in use; they move under adaptive speculation.",
            "short",
            Query(f"max by (arm) (sglang:spec_num_steps{ARM})", "{{arm}} steps"),
            Query(f"max by (arm) (sglang:spec_num_draft_tokens{ARM})", "{{arm}} draft tokens"),
        ),
    ]
    cost = [
        lines(
            "Step at the gateway",
            "Gap between reads with new tokens: one decode or verify step, the same for either engine.",
            "s",
            Query(f"k25:step_seconds:p50_rate5m{ARM}", "{{arm}} p50"),
            Query(f"k25:step_seconds:p95_rate5m{ARM}", "{{arm}} p95"),
            Query("k25:limit:step_seconds", "limit of p50"),
        ),
        distribution(
            "Steps at the gateway",
            "Steps a second by their time.",
            "s",
            f"sum by (le) (rate(k25serve_gateway_step_seconds_bucket{ARM}[5m]))",
        ),
        lines(
            "Stages of a step",
            "Median, in SGLang: the target's (extend, decode, target_verify), the drafter's (draft, draft_extend).",
            "s",
            Query(f"k25:engine_step_seconds:p50_rate5m{ARM}", "{{arm}} {{mode}}"),
            span=THIRD,
        ),
        lines(
            "Slow stages of a step",
            "95th percentile of the same.",
            "s",
            Query(f"k25:engine_step_seconds:p95_rate5m{ARM}", "{{arm}} {{mode}}"),
            span=THIRD,
        ),
        lines(
            "Time by stage",
            "Seconds a second that SGLang spends in each stage: 1 in all is an engine that is never idle.",
            "short",
            Query(f"sum by (arm, mode) (rate(k25serve_engine_step_seconds_sum{ARM}[5m]))", "{{arm}} {{mode}}"),
            span=THIRD,
        ),
    ]
    return framed(
        "speculation",
        "k25serve speculation",
        "What drafts gain, where they are refused, and what a step costs.",
        [all_arms()],
        [("Gain", gain), ("Where drafts are refused", where), ("Cost", cost)],
    )
