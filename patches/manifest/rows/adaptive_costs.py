"""Adaptive speculation that knows what steps cost."""

from k25serve.patches.manifest.row import Hook, Option, Row, Source

_PARAMS = "sglang.srt.speculative.adaptive_spec_params.AdaptiveSpeculativeParams"
_WORKER = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2"
_PROCESSOR = "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"

ROW = Row(
    name="adaptive_costs",
    code="k25serve.patches.hooks.adaptive_costs:AdaptiveCosts",
    hooks=(
        Hook(f"{_PARAMS}.__init__", {"0.5.17": "1d83632e09e309d2", "0.5.23": "1d83632e09e309d2"}, "after", "construct"),
        Hook(
            f"{_PARAMS}.get_steps_for_batch",
            {"0.5.17": "b0d78c8ad03aea09", "0.5.23": "b0d78c8ad03aea09"},
            "replace",
            "steps",
        ),
        Hook(
            f"{_PARAMS}.on_verify_complete",
            {"0.5.17": "b21a2ed867781cb8", "0.5.23": "b21a2ed867781cb8"},
            "replace",
            "learned",
        ),
        Hook(
            f"{_WORKER}.forward_batch_generation",
            {"0.5.17": "254d8c0b162273d9", "0.5.23": "60b6008a7a81ddb5"},
            "around",
            "forward",
        ),
        Hook(
            f"{_PROCESSOR}._resolve_spec_v2_tokens",
            {"0.5.17": "33b260bf160b6f30", "0.5.23": "b3a901e3fd35c7ab"},
            "after",
            "verified",
        ),
        Hook(
            "sglang.srt.managers.scheduler.Scheduler.on_idle",
            {"0.5.17": "0acfbb732553f765", "0.5.23": "365ac36fb7fd5a6e"},
            "around",
            "idle",
        ),
    ),
    relies_on=(
        Source(f"{_PARAMS}._route", {"0.5.17": "02a74ac28d921d60", "0.5.23": "02a74ac28d921d60"}),
        Source(f"{_WORKER}._build_trivial_verify_input", {"0.5.17": "b2ee664f819c3c8b", "0.5.23": "b2ee664f819c3c8b"}),
        Source(f"{_WORKER}._stub_skipped_draft_extend", {"0.5.17": "0d2c0cf6f3f4b891", "0.5.23": "0d2c0cf6f3f4b891"}),
        Source(f"{_WORKER}.apply_runtime_state", {"0.5.17": "8536d42940f9a883", "0.5.23": "8536d42940f9a883"}),
    ),
    reason="SGLang adapts the number of draft steps to acceptance alone, so it drafts where verification costs more "
    "than it brings. With a table of step costs, expected tokens per second decide, by batch and context. No "
    "speculation is one of the arms: SGLang's step 0, a verification of one token, whose draft extension is left out "
    "while it does not pay.",
    upstream="https://github.com/sgl-project/sglang/pull/28045 (throughput_aware: costs profiled at start, at one "
    "context length, and no arm without drafts)",
    remove_when="SGLang's own policy knows costs by batch and context, and has an arm without drafts",
    default=False,
    options=(
        Option("explore_share", 0.015, "share of the time that probes of other arms may cost at most"),
        Option("hysteresis", 0.005, "relative gain below which the arm is not changed"),
        Option("trace", "", "file that gets a line of JSON for each decision and each verification; empty: none"),
    ),
)
