"""Experts that a verify step touches."""

from k25serve.patches.manifest.row import Hook, Option, Row, Source

_MODEL = "sglang.srt.models.deepseek_v2.DeepseekV2MoE"
_WORKER = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2"

ROW = Row(
    name="unique_experts",
    code="k25serve.patches.hooks.unique_experts:UniqueExperts",
    hooks=(
        Hook(f"{_MODEL}.forward", {"0.5.17": "5b6c1072cd9243eb", "0.5.23": "cea4d5af0260297e"}, "around", "moe"),
        Hook(
            "sglang.srt.layers.moe.topk.select_experts",
            {"0.5.17": "ea1ed25a1d3bc9d6", "0.5.23": "a9b385ca920ba26e"},
            "after",
            "routed",
        ),
        Hook(f"{_WORKER}.__init__", {"0.5.17": "66a686abd2845c90", "0.5.23": "1e6efe552965d22d"}, "after", "loaded"),
        Hook(f"{_WORKER}.verify", {"0.5.17": "a0464b437e04f926", "0.5.23": "baff106c10a67174"}, "around", "verified"),
        Hook(
            "sglang.srt.managers.scheduler.Scheduler.on_idle",
            {"0.5.17": "0acfbb732553f765", "0.5.23": "365ac36fb7fd5a6e"},
            "around",
            "idle",
        ),
    ),
    relies_on=(
        Source(
            "sglang.srt.layers.moe.topk.TopK.forward_cuda", {"0.5.17": "af5d4c60ca80860a", "0.5.23": "8f5f82c2d4978a7c"}
        ),
        Source(
            "sglang.srt.layers.moe.topk.TopK.forward_native",
            {"0.5.17": "63c5b9555009c410", "0.5.23": "6dfdc81af6ad68a5"},
        ),
    ),
    reason="How many experts a verify step reads is what its cost hangs on, and SGLang does not tell. Sampled: the "
    "histogram k25serve_engine_unique_experts. Off by default: where it is on, the sampled layers' routing has four "
    "small kernels more. A MoE runner that routes by itself (trtllm, triton_kernel) does not pass here: no values.",
    upstream="none",
    remove_when="SGLang has such a metric",
    default=False,
    options=(
        Option("every_layer", 8, "sample one mixture-of-experts layer in so many"),
        Option("every_step", 16, "sample one verify step in so many"),
    ),
)
