"""Row lossy_expert_budget: at verification all tokens share a budget of experts. LOSSY: the output changes."""

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from k25serve.patches.context import Context
from k25serve.patches.hooks.rank import this_rank
from k25serve.patches.hooks.verify_scope import VerifyScope
from k25serve.patches.kernels.moe_verify import budgeted_topk

NAME = "k25serve_engine_lossy"
HELP = "1 while a patch is on that changes the target's output."


class LossyExpertBudget:
    """Routes again, inside the budget, what SGLang has routed; prefill and plain decoding are as ever."""

    def __init__(self, context: Context) -> None:
        self._budget = int(context.options["budget"])
        self._scope = VerifyScope()
        self._layers = 0

    def built(self, result: None, layer: Any, *args: Any, **kwargs: Any) -> None:
        """After `DeepseekV2MoE.__init__`. Raises ValueError for a budget or a router that this is not written for."""
        self._layers += 1
        config, experts = layer.topk.topk_config, layer.gate.weight.shape[0]
        if not config.top_k <= self._budget < experts:
            raise ValueError(
                f"budget {self._budget} must be {config.top_k} to {experts - 1}: a token has {config.top_k} experts, "
                f"a layer {experts}"
            )
        wrong = {
            "scoring_func": config.scoring_func != "sigmoid",
            "correction_bias": config.correction_bias is None,
            "num_expert_group": config.num_expert_group not in (None, 1),
            "shared experts among the routed ones": _shared_slots(config) > 0,
        }
        for name in (name for name, is_wrong in wrong.items() if is_wrong):
            raise ValueError(f"written for a router with sigmoid scores, a bias and one group, but not for {name}")

    def moe(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `DeepseekV2MoE.forward`."""
        return self._scope.run(original, *args, **kwargs)

    def routed(
        self, result: Any, hidden_states: Any, router_logits: torch.Tensor, topk_config: Any, **kwargs: Any
    ) -> None:
        """After `select_experts`: other experts and weights take the place of its own.

        Each token's weights add up to what they added up to before, so scaling and normalisation stay SGLang's.
        Raises ValueError where experts have been given other numbers since.
        """
        if not self._scope.active:
            return
        for name in ("expert_location_dispatch_info", "dynamic_expert_bias"):
            if kwargs.get(name) is not None:
                raise ValueError(f"{name} is set: not with redundant or relocated experts, or a bias for each token")
        ids, weights = result.topk_ids, result.topk_weights
        valid = ids[:, 0] >= 0
        shares, experts = budgeted_topk(
            router_logits, topk_config.correction_bias, valid, topk_config.top_k, self._budget
        )
        rows = valid.unsqueeze(1)
        weights.copy_(torch.where(rows, shares * weights.sum(dim=-1, keepdim=True), weights))
        ids.copy_(torch.where(rows, experts, ids))

    def facts(self) -> dict[str, Any]:
        """Says in the log and on /metrics that the output is not the target's own. Raises ValueError if it is."""
        if not self._layers:
            raise ValueError("the target has no mixture of experts of DeepSeek's kind, so the row has no effect")
        if this_rank().is_first:
            print(
                f"k25serve: LOSSY: patch lossy_expert_budget is on: verification routes to {self._budget} experts a "
                "layer, so the output is not the target's own",
                file=sys.stderr,
                flush=True,
            )
            if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
                from prometheus_client import Gauge

                Gauge(NAME, HELP, ["patch"], multiprocess_mode="max").labels("lossy_expert_budget").set(1)
        return {"lossy": True, "budget": self._budget}


def _shared_slots(config: Any) -> int:
    """Of a TopKConfig: 0.5.17 has a number, 0.5.23 a property."""
    return int(getattr(config, "num_fused_shared_experts", 0) or getattr(config, "num_shared_topk_slots", 0))
