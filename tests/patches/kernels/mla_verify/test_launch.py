"""What the public call refuses, and by which name. Nothing is launched here."""

from dataclasses import replace

import pytest
import torch

from k25serve.patches.kernels.mla_verify import Workspace, mla_verify


def call(case, workspace: Workspace | None = None, **changes: object) -> None:
    tokens, heads = case.q.shape[:2]
    if workspace is None:
        workspace = allocate(case.kv_buffer.dtype)
    arguments = {
        "q": case.q,
        "k_extend": case.k_extend,
        "kv_buffer": case.kv_buffer,
        "kv_indptr": case.kv_indptr,
        "kv_indices": case.kv_indices,
        "out": torch.empty((tokens, heads, 512), dtype=torch.bfloat16),
        "scaling": 0.1,
        "workspace": workspace,
    }
    mla_verify(**{**arguments, **changes})


def allocate(dtype: torch.dtype, **changes: object) -> Workspace:
    settings = {"max_batch": 2, "heads": 8, "max_draft_tokens": 4, "kv_dtype": dtype, "device": "cpu"}
    return Workspace.allocate(**{**settings, "capability": (12, 0), "processors": 4, "override": "", **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.zeros((8, 8, 512), dtype=torch.bfloat16)}, r"q is \[8, 8, 512\], expected \[8, 8, 576\]"),
        ({"q": torch.zeros((7, 8, 576), dtype=torch.bfloat16)}, "q has 7 tokens for a batch of 2"),
        ({"q": torch.zeros((18, 8, 576), dtype=torch.bfloat16)}, "q has 18 tokens for a batch of 2"),
        ({"q": torch.zeros((8, 129, 576), dtype=torch.bfloat16)}, "q has 129 heads"),
        ({"q": torch.zeros((8, 8, 576))}, "q is torch.float32, expected bfloat16"),
        ({"q": torch.zeros((8, 8, 1152), dtype=torch.bfloat16)[..., ::2]}, "q has strides"),
        ({"k_extend": torch.zeros((4, 1, 576), dtype=torch.bfloat16)}, r"k_extend is \[4, 1, 576\]"),
        ({"kv_buffer": torch.zeros((9, 2, 576), dtype=torch.bfloat16)}, r"kv_buffer is \[9, 2, 576\]"),
        ({"kv_buffer": torch.zeros((9, 1, 576), dtype=torch.float16)}, "kv_dtype is float16"),
        ({"kv_buffer": torch.zeros((9, 1, 576)).to(torch.float8_e4m3fn)}, "allocated for bf16"),
        ({"kv_buffer": torch.zeros(9 * 576 + 1, dtype=torch.bfloat16)[1:].view(9, 1, 576)}, "no multiple of 16"),
        ({"out": torch.empty((8, 8, 576), dtype=torch.bfloat16)}, r"out is \[8, 8, 576\]"),
        ({"k_scale": 0.5}, "a bf16 cache has none"),
        ({"n_splits": 100}, "n_splits=100 at batch 2 needs 6400 rows of scratch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refuses(make_case, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(make_case([5, 9]), **changes)


def test_refuses_a_workspace_of_another_kind(make_case) -> None:
    case = make_case([5, 9], kind="fp8")
    with pytest.raises(ValueError, match="allocated for bf16"):
        call(case, allocate(torch.bfloat16))
    dots = allocate(torch.float8_e4m3fn, fp8_dot=True)
    assert dots.kind == "fp8_dot"
    with pytest.raises(ValueError, match="needs 64 rows of scratch"):
        call(case, replace(dots, lse=dots.lse[:16]), n_splits=1)


def test_workspace_takes_the_override_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K25SERVE_MLA_VERIFY_TILE", "stages=2")
    assert {tile.stages for tile in allocate(torch.bfloat16, override=None).tiles.values()} == {2}
    monkeypatch.setenv("K25SERVE_MLA_VERIFY_TILE", "stages")
    with pytest.raises(ValueError, match="K25SERVE_MLA_VERIFY_TILE: stages=''"):
        allocate(torch.bfloat16, override=None)


def test_workspace_refuses_a_cache_without_a_kernel() -> None:
    with pytest.raises(ValueError, match="kv_dtype is float32"):
        allocate(torch.float32)
