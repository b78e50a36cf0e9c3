"""How long each stage of a step takes."""

from k25serve.patches.manifest.row import Hook, Row, Source

_WORKER = "sglang.srt.speculative.eagle_worker_v2"

ROW = Row(
    name="step_seconds",
    code="k25serve.patches.hooks.step_seconds:StepSeconds",
    hooks=(
        Hook(
            "sglang.srt.managers.tp_worker.TpModelWorker.forward_batch_generation",
            {"0.5.17": "431cd6cd1af8f6a5", "0.5.23": "2e3aa8ee5c6e3c54"},
            "around",
            "forward",
        ),
        Hook(
            f"{_WORKER}.EagleDraftWorker.draft",
            {"0.5.17": "c5b5788a3a37d988", "0.5.23": "bf4ee8347603855f"},
            "around",
            "draft",
        ),
        Hook(
            f"{_WORKER}.EagleDraftWorker._draft_extend_for_decode",
            {"0.5.17": "12e19c0ecc9216ba", "0.5.23": "ece7d91084dbb67a"},
            "around",
            "draft_extend",
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
            f"{_WORKER}.EAGLEWorkerV2.forward_batch_generation",
            {"0.5.17": "254d8c0b162273d9", "0.5.23": "60b6008a7a81ddb5"},
        ),
    ),
    reason="SGLang has counters of forward time and an inter-token histogram that speculation smooths, but no "
    "histogram of a step. Here is one by stage, k25serve_engine_step_seconds, on SGLang's own /metrics.",
    upstream="none: SGLANG_ENABLE_METRICS_DEVICE_TIMER gives forward_execution_seconds_total, a counter",
    remove_when="SGLang has a histogram of step time by forward mode",
)
