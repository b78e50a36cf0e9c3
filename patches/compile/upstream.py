"""SGLang's attention kernels at the shapes of a Kimi-K2.5 rank (8 heads, latent 576), launched as its back end does."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from k25serve.patches.compile.sglang_kernels import SGLangKernels
from k25serve.patches.compile.stub import Collector
from k25serve.patches.compile.variants import Compiled

HEADS, WIDTH, LATENT, DRAFT, BATCH, SPLITS = 8, 576, 512, 4, 4, 64


def upstream(kernels: SGLangKernels, collector: Collector) -> Iterator[Compiled]:
    """Launch decode, extend (with and without a mask) and, where there is one, verify_mla, for bf16 and fp8 caches."""
    import torch

    for kind, dtype in (("bf16", torch.bfloat16), ("fp8", torch.float8_e4m3fn)):
        launches: list[tuple[str, Callable[[Any], None]]] = [
            ("decode", partial(_decode, kernels)),
            ("extend verify", partial(_extend, kernels, True)),
            ("extend prefill", partial(_extend, kernels, False)),
        ]
        if kernels.verify is not None:
            launches.append(("verify_mla", partial(_verify, kernels)))
        for name, launch in launches:
            launch(dtype)
            for kernel in collector.take():
                variant = f"sglang {kernels.version} {name} {kind} {kernel.name.lstrip('_')}"
                yield Compiled(variant, kernel, default=False)


def _cache(dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Key buffer, value buffer (its first 512 columns), kv_indptr, kv_indices."""
    import torch

    keys = torch.empty((1024, 1, WIDTH), dtype=dtype, device="meta")
    indptr = torch.empty((BATCH + 1,), dtype=torch.int32, device="meta")
    return keys, keys[..., :LATENT], indptr, torch.empty((1024,), dtype=torch.int64, device="meta")


def _decode(kernels: SGLangKernels, dtype: Any) -> None:
    import torch

    keys, values, indptr, indices = _cache(dtype)
    q = torch.empty((BATCH, HEADS, WIDTH), dtype=torch.bfloat16, device="meta")
    out = torch.empty((BATCH, HEADS, LATENT), dtype=torch.bfloat16, device="meta")
    logits = torch.empty((BATCH, HEADS, SPLITS, LATENT), dtype=torch.float32, device="meta")
    lse = torch.empty((BATCH, HEADS, SPLITS), dtype=torch.float32, device="meta")
    splits = torch.empty((BATCH,), dtype=torch.int32, device="meta")
    kernels.decode.decode_attention_fwd(
        q, keys, values, out, indptr, indices, logits, lse, splits, SPLITS, 0.1, 1.0, 1.0, has_mla=True
    )


def _drafts() -> tuple[Any, Any, Any, Any, Any]:
    """q, k, v, out of the new tokens, and qo_indptr."""
    import torch

    tokens = BATCH * DRAFT
    q = torch.empty((tokens, HEADS, WIDTH), dtype=torch.bfloat16, device="meta")
    k = torch.empty((tokens, 1, WIDTH), dtype=torch.bfloat16, device="meta")
    v = torch.empty((tokens, 1, LATENT), dtype=torch.bfloat16, device="meta")
    out = torch.empty((tokens, HEADS, LATENT), dtype=torch.bfloat16, device="meta")
    return q, k, v, out, torch.empty((BATCH + 1,), dtype=torch.int32, device="meta")


def _extend(kernels: SGLangKernels, masked: bool, dtype: Any) -> None:
    import torch

    keys, values, indptr, indices = _cache(dtype)
    q, k, v, out, qo_indptr = _drafts()
    mask = torch.empty((4096,), dtype=torch.bool, device="meta") if masked else None
    mask_indptr = torch.empty((BATCH + 1,), dtype=torch.int64, device="meta") if masked else None
    kernels.extend.extend_attention_fwd(
        q, k, v, out, keys, values, qo_indptr, indptr, indices, mask, True, mask_indptr, DRAFT, 1.0, 1.0, 0.1
    )


def _verify(kernels: SGLangKernels, dtype: Any) -> None:
    keys, values, indptr, indices = _cache(dtype)
    q, k, v, out, qo_indptr = _drafts()
    kernels.verify.verify_shared_kv_fwd(
        q, k, v, out, keys, values, qo_indptr, indptr, indices, None, True, None, DRAFT, 1.0, 1.0, 0.1, max_bs=BATCH
    )
