"""How many draft tokens a verify step accepts."""

from k25serve.patches.manifest.row import Hook, Row, Source

_REQ = "sglang.srt.managers.schedule_batch.Req"
_PROCESSOR = "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"

ROW = Row(
    name="accepted_tokens",
    code="k25serve.patches.hooks.accepted_tokens:AcceptedTokens",
    hooks=(
        Hook(
            f"{_REQ}.update_spec_correct_drafts_histogram",
            {"0.5.17": "b59b4a320c705d03", "0.5.23": "b59b4a320c705d03"},
            "after",
            "step",
        ),
        Hook(
            "sglang.srt.managers.scheduler.Scheduler.on_idle",
            {"0.5.17": "0acfbb732553f765", "0.5.23": "365ac36fb7fd5a6e"},
            "around",
            "idle",
        ),
    ),
    relies_on=(
        Source(
            f"{_PROCESSOR}._resolve_spec_v2_tokens",
            {"0.5.17": "33b260bf160b6f30", "0.5.23": "b3a901e3fd35c7ab"},
        ),
    ),
    reason="SGLang's spec_accept_length is a gauge of the last log interval. Here is every verify step of every "
    "request, k25serve_engine_accepted_tokens_per_step, on SGLang's own /metrics.",
    upstream="none",
    remove_when="SGLang has counters of accepted draft tokens",
)
