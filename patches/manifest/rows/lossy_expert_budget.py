"""A budget of experts at verification, after MoE-Spec."""

from k25serve.patches.manifest.row import Hook, Option, Row, Source

_MODEL = "sglang.srt.models.deepseek_v2.DeepseekV2MoE"

ROW = Row(
    name="lossy_expert_budget",
    code="k25serve.patches.hooks.lossy_expert_budget:LossyExpertBudget",
    hooks=(
        Hook(f"{_MODEL}.__init__", {"0.5.17": "fe4eb5ff98bc487a", "0.5.23": "8c1edc972cda1e5a"}, "after", "built"),
        Hook(
            f"{_MODEL}.forward",
            {"0.5.17": "5b6c1072cd9243eb", "0.5.23": "cea4d5af0260297e"},
            "around",
            "moe",
        ),
        Hook(
            "sglang.srt.layers.moe.topk.select_experts",
            {"0.5.17": "ea1ed25a1d3bc9d6", "0.5.23": "a9b385ca920ba26e"},
            "after",
            "routed",
        ),
    ),
    relies_on=(
        Source("sglang.srt.layers.moe.topk.TopKConfig", {"0.5.17": "473e11748419ccf5", "0.5.23": "a9b5709a2e80aaeb"}),
        Source(
            "sglang.srt.layers.moe.topk.StandardTopKOutput",
            {"0.5.17": "3eb604e3f53adbe5", "0.5.23": "3eb604e3f53adbe5"},
        ),
    ),
    reason="LOSSY: the output is no longer the target's own. A verify step reads every expert that any of its tokens "
    "wants; with a budget a layer reads `budget` experts, and the tokens' first choices where they are more. After "
    "MoE-Spec (arXiv 2602.16052), with DeepSeek-V3's scores. What it does to the output: k25serve bench expert-budget.",
    upstream="none",
    remove_when="verification cost no longer grows with the experts that are read",
    default=False,
    lossy=True,
    options=(Option("budget", 64, "experts that a layer's verification may read; at least those of one token"),),
)
