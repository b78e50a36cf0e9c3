"""Launching without a GPU: what is collected, and that Triton is left as it was."""

import pytest
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from k25serve.patches.compile.fake import FakeTensor
from k25serve.patches.compile.sglang_kernels import installed_folder, load
from k25serve.patches.compile.stub import launches_compile_for
from k25serve.patches.compile.variants import ours


def test_a_fake_tensor_looks_like_torch() -> None:
    tensor = FakeTensor((4, 8, 576), "bfloat16")
    assert tensor.stride() == (4608, 576, 1)
    assert (tensor.stride(0), tensor.stride(-1)) == (4608, 1)
    assert tensor.data_ptr() % 16 == 0


def test_triton_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    run, before = JITFunction.run, driver.__dict__.copy()

    def compile_one_and_fail() -> None:
        with launches_compile_for("sm_120") as collector:
            first = next(iter(ours("sm_120", collector)))
            assert first.name == "bf16 16 rows"
            assert ".target sm_120" in first.kernel.asm["ptx"]
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        compile_one_and_fail()
    assert JITFunction.run is run
    assert driver.__dict__ == before


def test_sglang_is_not_imported_by_loading_its_kernels() -> None:
    import sys

    before = {name for name in sys.modules if name.partition(".")[0] == "sglang"}
    kernels = load(installed_folder(), "0.5.23", (12, 0))
    assert {name for name in sys.modules if name.partition(".")[0] == "sglang"} == before
    tile = kernels.extend._get_block_sizes_for_extend_attention
    assert tile(576, 512)[3:5] == (32, 32)
    assert load(installed_folder(), "0.5.23", (9, 0)).extend._get_block_sizes_for_extend_attention(576, 512)[3:5] == (
        32,
        64,
    )


def test_a_missing_kernel_file_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no decode_attention\.py"):
        load(tmp_path, "0.5.23", (12, 0))
