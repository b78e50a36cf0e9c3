"""What is timed: each contender is a function of the inputs and of the output to write, and returns a launch."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from k25serve.bench.kernels.shapes import DRAFT_TOKENS, LATENT, SCALING, Inputs

if TYPE_CHECKING:
    import torch

Launch = Callable[[], None]
Contender = Callable[[Inputs, "torch.Tensor"], Launch]

OURS = "ours, SM120 tile"
# Whose table, and what is changed in it.
TILES = {
    OURS: ((12, 0), ""),
    "ours, SM120 tile, 3 stages": ((12, 0), "stages=3"),
    "ours, Hopper tile": ((9, 0), ""),
}
EXTEND, VERIFY_MLA = "SGLang extend, SM120 tile", "SGLang verify_mla"


def contenders(sglang_kernels: Path | None, sglang_version: str) -> dict[str, Contender]:
    """Ours in each tile and, where the folder with SGLang's kernels is given, its two ways to verify."""
    found = {name: _ours(capability, override) for name, (capability, override) in TILES.items()}
    if sglang_kernels is not None:
        found |= _sglang(sglang_kernels, sglang_version)
    return found


def _ours(capability: tuple[int, int], override: str) -> Contender:
    def contender(inputs: Inputs, out: "torch.Tensor") -> Launch:
        import torch

        from k25serve.patches.kernels.mla_verify import Workspace, mla_verify

        workspace = Workspace.allocate(
            max_batch=inputs.kv_indptr.shape[0] - 1,
            heads=inputs.q.shape[1],
            max_draft_tokens=DRAFT_TOKENS,
            kv_dtype=torch.bfloat16,
            device="cuda",
            capability=capability,
            override=override,
        )
        arguments = (inputs.q, inputs.k_extend, inputs.kv_buffer, inputs.kv_indptr, inputs.kv_indices, out)
        return lambda: mla_verify(*arguments, SCALING, workspace)

    return contender


def _sglang(folder: Path, version: str) -> dict[str, Contender]:
    from k25serve.patches.compile.sglang_kernels import load

    # As on SM120: the extend kernel picks its tile by the compute capability that it is told.
    kernels = load(folder, version, (12, 0))

    def arguments(inputs: Inputs, out: "torch.Tensor") -> tuple[object, ...]:
        values = inputs.k_extend[..., :LATENT].contiguous()
        buffers = (inputs.kv_buffer, inputs.kv_buffer[..., :LATENT])
        return (
            *(inputs.q, inputs.k_extend, values, out, *buffers),
            *(inputs.qo_indptr, inputs.kv_indptr, inputs.kv_indices),
            *(inputs.mask, True, inputs.mask_indptr, DRAFT_TOKENS, 1.0, 1.0, SCALING),
        )

    def extend(inputs: Inputs, out: "torch.Tensor") -> Launch:
        given = arguments(inputs, out)
        return lambda: kernels.extend.extend_attention_fwd(*given)

    def verify(inputs: Inputs, out: "torch.Tensor") -> Launch:
        given = arguments(inputs, out)

        def launch() -> None:
            if not kernels.verify.verify_shared_kv_fwd(*given, max_bs=64):
                raise RuntimeError("verify_shared_kv_fwd refused the shape")

        return launch

    found: dict[str, Contender] = {EXTEND: extend}
    if kernels.verify is not None:
        found[VERIFY_MLA] = verify
    return found
