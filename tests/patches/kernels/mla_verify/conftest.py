"""Random verify steps with everything poisoned that must not be read, and their error against float64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from k25serve.patches.kernels.mla_verify import Workspace, mla_verify
from k25serve.patches.kernels.mla_verify.naive import mla_verify_naive

WIDTH, LATENT, SCALING = 576, 512, 0.1
DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn, "fp8_dot": torch.float8_e4m3fn}
# What an fp8 cache was divided by; a bf16 cache has none.
SCALES = {"bf16": 1.0, "fp8": 0.37, "fp8_dot": 0.37}


@dataclass(frozen=True)
class Case:
    """One verify step. Slots that no prefix names, scratch and output hold NaN."""

    kind: str
    q: torch.Tensor
    k_extend: torch.Tensor
    kv_buffer: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor

    def run(self, n_splits: int | None = None, override: str = "") -> torch.Tensor:
        """Our kernel's output."""
        tokens, heads = self.q.shape[:2]
        batch = self.kv_indptr.shape[0] - 1
        workspace = Workspace.allocate(
            max_batch=batch * (n_splits or 1),
            heads=heads,
            max_draft_tokens=8,
            kv_dtype=self.kv_buffer.dtype,
            device=self.q.device,
            fp8_dot=self.kind == "fp8_dot",
            override=override,
            capability=None if self.q.is_cuda else (12, 0),
            processors=None if self.q.is_cuda else 8,
        )
        workspace.partial.fill_(float("nan"))
        workspace.lse.fill_(float("nan"))
        out = torch.full((tokens, heads, LATENT), float("nan"), dtype=torch.bfloat16, device=self.q.device)
        scale = SCALES[self.kind]
        arguments = (self.q, self.k_extend, self.kv_buffer, self.kv_indptr, self.kv_indices, out)
        mla_verify(*arguments, SCALING, workspace, k_scale=scale, v_scale=scale, n_splits=n_splits)
        return out

    def reference(self, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """The readable form's output."""
        scale = SCALES[self.kind]
        arguments = (self.q, self.k_extend, self.kv_buffer, self.kv_indptr, self.kv_indices)
        return mla_verify_naive(*arguments, SCALING, k_scale=scale, v_scale=scale, dtype=dtype)

    def error(self, out: torch.Tensor) -> float:
        """Relative L2 distance to float64 of the worst request; NaN where a number is NaN."""
        batch = self.kv_indptr.shape[0] - 1
        wanted = self.reference().reshape(batch, -1)
        off = (out.double().reshape(batch, -1) - wanted).norm(dim=1) / wanted.norm(dim=1)
        return float("nan") if off.isnan().any() else float(off.max())

    def with_other_draft(self, request: int, draft: int) -> "Case":
        """The same step with another latent for one draft token of one request."""
        row = request * (self.q.shape[0] // (self.kv_indptr.shape[0] - 1)) + draft
        k_extend = self.k_extend.clone()
        k_extend[row] = k_extend[row].flip(-1)
        return replace(self, k_extend=k_extend)


MakeCase = Callable[..., Case]


@pytest.fixture
def make_case() -> MakeCase:
    """Builds a case: make_case(prefixes, heads=8, draft_tokens=4, kind="bf16", device="cpu", seed=0)."""
    return _make_case


def _make_case(
    prefixes: Sequence[int],
    heads: int = 8,
    draft_tokens: int = 4,
    kind: str = "bf16",
    device: str = "cpu",
    seed: int = 0,
) -> Case:
    generator = torch.Generator().manual_seed(seed)
    batch, total = len(prefixes), sum(prefixes)
    slots = total + 9

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=generator).bfloat16()

    order = torch.randperm(slots, generator=generator)
    buffer = (normal(slots, 1, WIDTH) / SCALES[kind]).to(DTYPES[kind])
    # e4m3 has one NaN, 0x7f; as a bf16 pattern 0x7f7f would be a number.
    pattern, bits = (0x7F, torch.uint8) if kind != "bf16" else (0x7FC0, torch.int16)
    buffer.view(bits)[order[total:]] = pattern
    bounds = torch.tensor([0, *prefixes]).cumsum(0).int()
    # SGLang's index buffer is longer than what is used; what follows may name any slot.
    indices = torch.cat((order[:total], order[total:]))
    tensors = (
        normal(batch * draft_tokens, heads, WIDTH),
        normal(batch * draft_tokens, 1, WIDTH),
        buffer,
        bounds,
        indices,
    )
    return Case(kind, *(tensor.to(device) for tensor in tensors))
