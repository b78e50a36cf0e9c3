"""Row unique_experts: how many experts a verify step touches in a layer, now and then."""

import os
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from k25serve.patches.context import Context
from k25serve.patches.hooks.rank import this_rank
from k25serve.patches.hooks.tally import Tally
from k25serve.patches.hooks.verify_scope import VerifyScope
from k25serve.patches.kernels.moe_verify import unique_experts

NAME = "k25serve_engine_unique_experts"
HELP = (
    "Distinct routed experts of one mixture-of-experts layer in one verify step of the target, sampled by layer and by "
    "step. tokens: what was verified, up to the next power of two."
)
BUCKETS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384)
TOKENS = tuple(str(2**power) for power in range(14))
MOST_LAYERS = 512


class UniqueExperts:
    """The count is made on the device, within the captured graph; a copy of it is read once it has arrived."""

    def __init__(self, context: Context) -> None:
        self._every_layer, self._every_step = (int(context.options[name]) for name in ("every_layer", "every_step"))
        if self._every_layer < 1 or self._every_step < 1:
            raise ValueError(
                f"every_layer {self._every_layer} and every_step {self._every_step} must be at least 1; remove them"
            )
        self._device = context.here.device
        self._scope = VerifyScope()
        self._layers: dict[int, int] = {}
        self._counts: torch.Tensor | None = None
        self._step = 0
        self._tally: Tally | None = None
        self._arriving: deque[tuple[torch.Tensor, str, Any]] = deque()

    def moe(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `DeepseekV2MoE.forward`."""
        return self._scope.run(original, *args, **kwargs)

    def routed(self, result: Any, hidden_states: Any, router_logits: Any, *args: Any, **kwargs: Any) -> None:
        """After `select_experts`: where a layer's top-k ids are known, whatever kernel found them."""
        if not self._scope.active or self._tally is None:
            return
        layer = kwargs["layer_id"]
        index = self._layers.setdefault(layer, len(self._layers))
        if index % self._every_layer == 0:
            if self._counts is None:
                self._counts = self._buffer(router_logits.device)
            # Shared experts that SGLang puts among the others have the ids that follow theirs, and are no routed ones.
            experts = router_logits.shape[-1]
            ids = torch.where(result.topk_ids < experts, result.topk_ids, -1)
            self._counts[index] = unique_experts(ids, experts)

    def verified(self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `EAGLEWorkerV2.verify`."""
        requests = batch.seq_lens.shape[0]
        result = original(worker, batch, *args, **kwargs)
        if self._tally is not None and self._counts is not None and requests:
            self._step += 1
            if self._step % self._every_step == 0:
                self._send(requests * worker.speculative_num_draft_tokens)
            self._collect()
        return result

    def idle(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `Scheduler.on_idle`, which may sleep."""
        if self._tally is not None:
            self._collect()
            self._tally.flush()
        return original(*args, **kwargs)

    def loaded(self, result: None, *args: Any, **kwargs: Any) -> None:
        """After `EAGLEWorkerV2.__init__`: process groups are there, graphs are not captured yet."""
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR") and this_rank().is_first:
            from prometheus_client import Histogram

            self._tally = Tally(Histogram(NAME, HELP, ["tokens"], buckets=BUCKETS), TOKENS)

    def _buffer(self, device: torch.device) -> torch.Tensor:
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the first verify step ran inside a graph capture, without the usual warm-up before it")
        return torch.zeros(MOST_LAYERS, dtype=torch.int32, device=device)

    def _send(self, tokens: int) -> None:
        assert self._counts is not None
        label = TOKENS[min(len(TOKENS) - 1, (tokens - 1).bit_length())]
        counts = self._counts[: len(self._layers) : self._every_layer]
        if self._device == "cpu":
            self._arriving.append((counts.clone(), label, None))
            return
        host = torch.empty(counts.shape, dtype=counts.dtype, pin_memory=True)
        host.copy_(counts, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        self._arriving.append((host, label, arrived))

    def _collect(self) -> None:
        assert self._tally is not None
        while self._arriving and (self._arriving[0][2] is None or self._arriving[0][2].query()):
            counts, label, _ = self._arriving.popleft()
            for count in counts.tolist():
                self._tally.add(count, label)
