"""Row mla_verify: SGLang's verify step calls our kernel where it can, and is told to take its own where it can't."""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from k25serve.patches.context import Context
from k25serve.patches.kernels.mla_verify.launch import MOST_DRAFT_TOKENS, WIDTH
from k25serve.patches.kernels.mla_verify.workspace import LATENT, Workspace, kind_of

if TYPE_CHECKING:
    import torch

# Where TritonAttnBackend keeps a faster verify and the switch for it, by SGLang version: both are called alike.
SLOTS = {
    "0.5.17": ("verify_splitkv_fwd", "use_verify_splitkv"),
    "0.5.23": ("verify_shared_kv_fwd", "use_verify_shared_kv"),
}
logger = logging.getLogger(__name__)


class MlaVerify:
    """Gives every TritonAttnBackend that verifies over a latent cache a `VerifyCall` of its own."""

    def __init__(self, context: Context) -> None:
        self._slots = SLOTS[context.here.version]
        self._calls: list[VerifyCall] = []
        self._left: Counter[str] = Counter()

    def construct(self, result: None, backend: Any, model_runner: Any, *args: Any, **kwargs: Any) -> None:
        """After `TritonAttnBackend.__init__`, before graphs are captured: scratch memory must not move later."""
        import torch

        if (reason := unsuited(backend, model_runner)) is not None:
            self._left[reason] += 1
            return
        workspace = Workspace.allocate(
            max_batch=backend.req_to_token_pool.size,
            heads=backend.num_head,
            max_draft_tokens=MOST_DRAFT_TOKENS,
            kv_dtype=kv_buffer(backend).dtype,
            device=backend.device,
        )
        call = VerifyCall(workspace)
        self._calls.append(call)
        function, switch = self._slots
        setattr(backend, function, torch.compiler.disable(call))  # type: ignore[no-untyped-call]
        setattr(backend, switch, True)

    def facts(self) -> dict[str, Any]:
        """Back ends that have the kernel, its launches so far (from Python: not a graph's replays), what was left."""
        left = sum((call.left for call in self._calls), Counter(self._left))
        return {"backends": len(self._calls), "launches": sum(c.launches for c in self._calls), "left": dict(left)}


def unsuited(backend: Any, model_runner: Any) -> str | None:
    """Why a back end keeps SGLang's own verify; None if the kernel serves it."""
    if model_runner.is_draft_worker or backend.skip_prefill:
        return "a draft model's back end verifies nothing"
    if not model_runner.spec_algorithm.is_eagle():
        return "no EAGLE speculation: another algorithm's drafts need not be a chain"
    if not backend.use_mla:
        return "attention is not MLA"
    if backend.topk != 1:
        return f"topk is {backend.topk}: a tree needs its mask"
    if backend.dcp_size != 1:
        return f"decode context parallel size is {backend.dcp_size}"
    cache = kv_buffer(backend)
    if cache.shape[-1] != WIDTH:
        return f"a cache row has {cache.shape[-1]} columns, the kernel {WIDTH}"
    try:
        kind_of(cache.dtype, fp8_dot=False)
    except ValueError as error:
        return str(error)
    return None


def kv_buffer(backend: Any) -> "torch.Tensor":
    """[slots, 1, 576]: the latent cache of the first layer of this rank."""
    buffer: torch.Tensor = backend.token_to_kv_pool.get_key_buffer(backend.token_to_kv_pool.start_layer)
    return buffer


@dataclass
class VerifyCall:
    """What SGLang calls at each layer of a verify step: True if the kernel wrote `o`, False if SGLang must.

    Under CUDA graphs it runs at capture only, so its decision is the graph's.
    """

    workspace: Workspace
    launches: int = 0
    left: Counter[str] = field(default_factory=Counter)

    def __call__(
        self,
        q: "torch.Tensor",
        k: "torch.Tensor",
        v: "torch.Tensor",
        o: "torch.Tensor",
        k_buffer: "torch.Tensor",
        v_buffer: "torch.Tensor",
        qo_indptr: "torch.Tensor",
        kv_indptr: "torch.Tensor",
        kv_indices: "torch.Tensor",
        custom_mask: "torch.Tensor | None",
        causal: bool,
        mask_indptr: "torch.Tensor | None",
        max_len_extend: int,
        k_scale: float,
        v_scale: float,
        sm_scale: float,
        *,
        logit_cap: float = 0.0,
        sliding_window_size: int = -1,
        sinks: "torch.Tensor | None" = None,
        window_kv_offsets: "torch.Tensor | None" = None,
        xai_temperature_len: int = -1,
        max_bs: int | None = None,
    ) -> bool:
        """Arguments as `verify_splitkv_fwd` of SGLang has them. `custom_mask` is not looked at: topk is 1."""
        special = logit_cap > 0 or sliding_window_size > 0 or sinks is not None or xai_temperature_len > 0
        reason = "a logit cap, window, sinks or temperature scaling" if special else None
        reason = reason or self._unsuited(q, o, kv_indptr.shape[0] - 1, causal, int(max_len_extend))
        if reason is None and self.workspace.kind == "bf16" and (k_scale, v_scale) != (1.0, 1.0):
            reason = f"scales {k_scale} and {v_scale} of a bfloat16 cache"
        if reason is not None:
            if not self.left[reason]:
                logger.warning("k25serve: patch mla_verify: left to SGLang's slower verify: %s", reason)
            self.left[reason] += 1
            return False
        from k25serve.patches.kernels.mla_verify import mla_verify

        mla_verify(q, k, k_buffer, kv_indptr, kv_indices, o, sm_scale, self.workspace, k_scale=k_scale, v_scale=v_scale)
        self.launches += 1
        return True

    def _unsuited(
        self, q: "torch.Tensor", o: "torch.Tensor", batch: int, causal: bool, draft_tokens: int
    ) -> str | None:
        if not causal:
            return "attention is not causal"
        if (q.shape[-1], o.shape[-1]) != (WIDTH, LATENT):
            return f"head dims {q.shape[-1]} and {o.shape[-1]}, not {WIDTH} and {LATENT}"
        if not str(q.dtype).endswith("bfloat16"):
            return f"queries are {q.dtype}, not bfloat16"
        if not 1 <= draft_tokens <= MOST_DRAFT_TOKENS:
            return f"{draft_tokens} draft tokens, more than {MOST_DRAFT_TOKENS}"
        if q.shape[0] != batch * draft_tokens:
            return "requests with different numbers of draft tokens"
        return None
