"""One small kernel of each package that holds GPU code: `python -P -m k25serve.patches.smoke`, a JSON line for each.

Before a long load, since a build without code for the GPU fails at its first launch only. Needs a CUDA device.
"""

import json
from collections.abc import Callable
from typing import Any


def _matmul() -> None:
    import torch

    ones = torch.ones((64, 64), device="cuda", dtype=torch.bfloat16)
    assert (ones @ ones).sum().item() == 64**3


def _norm() -> None:
    import sgl_kernel
    import torch

    row = torch.ones((1, 256), device="cuda", dtype=torch.bfloat16)
    weight = torch.ones(256, device="cuda", dtype=torch.bfloat16)
    assert abs(sgl_kernel.rmsnorm(row, weight, 1e-6).float().mean().item() - 1) < 0.01


def _verify() -> None:
    import torch

    from k25serve.patches.kernels.mla_verify import Workspace, mla_verify

    bf16: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    workspace = Workspace.allocate(max_batch=1, heads=8, max_draft_tokens=4, kv_dtype=torch.bfloat16, device="cuda")
    query, key = torch.zeros((4, 8, 576), **bf16), torch.ones((4, 1, 576), **bf16)
    cache, out = torch.ones((32, 1, 576), **bf16), torch.empty((4, 8, 512), **bf16)
    bounds, slots = torch.tensor([0, 32], device="cuda", dtype=torch.int32), torch.arange(32, device="cuda")
    mla_verify(query, key, cache, bounds, slots, out, 0.1, workspace)
    assert (out == 1).all().item()


KERNELS: tuple[tuple[str, str, Callable[[], None]], ...] = (
    ("torch", "a bf16 matrix product", _matmul),
    ("sglang-kernel", "rmsnorm", _norm),
    ("k25serve", "the verify kernel", _verify),
)


def main() -> None:
    """Run each; a failure is told and the next one runs."""
    for package, kernel, run in KERNELS:
        try:
            run()
            error = ""
        except Exception as failure:  # noqa: BLE001 - whatever a driver or a package raises is the finding
            error = f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"
        print(json.dumps({"package": package, "kernel": kernel, "error": error}), flush=True)


if __name__ == "__main__":
    main()
