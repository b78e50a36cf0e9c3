"""The stand-in against the SGLang that is installed: an upgrade that asks for more must fail here."""

import ast
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from k25serve.patches.reference import stand_in

# Where SGLang's CPU path imports its kernels at module level. Backends for GPUs and other models do so elsewhere.
SCANNED = ("kernels", "srt/managers", "srt/mem_cache", "srt/model_executor", "srt/speculative")


class OnCpu(dict):
    """Names in the tests of `if` statements, as they are on a CPU without AMX."""

    def __missing__(self, name):
        value = name.endswith("is_cpu")
        return value if name.startswith("_") or name == "TYPE_CHECKING" else lambda: value


def is_kernel_import(node):
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sgl_kernel")


def guarded_imports(statements, guarded=False):
    """(module, name) of every sgl_kernel import that runs on a CPU because an `if` on the platform says so."""
    for statement in statements:
        if is_kernel_import(statement) and guarded:
            yield from ((statement.module, alias.name) for alias in statement.names)
        elif isinstance(statement, ast.If) and any(map(is_kernel_import, ast.walk(statement))):
            holds = eval(ast.unparse(statement.test), {"__builtins__": {}}, OnCpu())
            yield from guarded_imports(statement.body if holds else statement.orelse, True)


def test_names_that_sglang_imports_equal_the_table():
    root = Path(importlib.util.find_spec("sglang").origin).parent
    asked = set()
    for folder in SCANNED:
        for path in (root / folder).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if "from sgl_kernel" in source:
                asked.update(guarded_imports(ast.parse(source).body))
    table = {
        (module, name)
        for module, members in stand_in.functions().items()
        if module.startswith(stand_in.KERNEL_MODULE)
        for name in members
    }
    assert asked == table


@pytest.mark.usefixtures("sglang_on_cpu")
def test_sglang_holds_our_functions():
    from sglang.kernels.ops.kvcache import cache_move
    from sglang.kernels.ops.speculative import cache_locs, eagle, multi_layer_eagle, reconstruct_tree, spec_tree
    from sglang.srt.mem_cache import allocation

    ours = stand_in.functions()
    kernels, speculative = ours["sgl_kernel"], ours["sgl_kernel.speculative"]
    holders = (allocation, cache_move, cache_locs, eagle, multi_layer_eagle)
    for name, function in kernels.items():
        if name.startswith(("build_tree", "verify_tree")):
            assert getattr(spec_tree, f"sgl_{name}") is function
        else:
            assert [getattr(h, name) for h in holders if hasattr(h, name)] == [function]
    (reconstruct,) = speculative.values()
    assert reconstruct_tree.reconstruct_indices_from_tree_mask is reconstruct


@pytest.mark.usefixtures("sglang_on_cpu")
def test_constants_and_keywords_are_sglangs():
    from sglang.kernels.ops.speculative import spec_tree
    from sglang.kernels.ops.speculative.sampling import tree_speculative_sampling_target_only as upstream

    from k25serve.patches.reference import sampling, tree, verify

    assert int(spec_tree.TreeMaskMode.QLEN_ONLY) == tree.QLEN_ONLY
    source = inspect.getsource(spec_tree.verify_tree_greedy_func)
    assert all(f"{keyword}=" in source for keyword in inspect.signature(verify.verify_tree_greedy).parameters)
    ours = inspect.signature(sampling.tree_speculative_sampling_target_only).parameters
    assert list(ours) == list(inspect.signature(upstream).parameters)


@pytest.mark.usefixtures("sglang_on_cpu")
def test_sglang_sees_no_amx_and_a_cpu():
    from sglang.srt.utils import cpu_has_amx_support, is_cpu

    assert is_cpu()
    assert not cpu_has_amx_support()


@pytest.mark.usefixtures("sglang_on_cpu")
def test_upstreams_backend_refuses_to_serve():
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

    with pytest.raises(SystemExit, match="SGLANG_PLUGINS"):
        TorchNativeAttnBackend(None)


def run(code):
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_unknown_names_and_modules_stay_import_errors():
    assert (
        run(
            "from k25serve.patches.reference import stand_in\n"
            "import importlib.util\n"
            "assert not stand_in.is_installed()\n"
            "stand_in.install()\n"
            "assert stand_in.is_installed()\n"
            "assert importlib.util.find_spec('sgl_kernel').loader is None\n"
            "import sgl_kernel.speculative\n"
            "for name in ('sgl_kernel.scalar_type', 'sgl_kernel.flash_attn'):\n"
            "    try: __import__(name)\n"
            "    except ImportError: print('absent')\n"
            "try: from sgl_kernel import silu_and_mul\n"
            "except ImportError: print('absent')\n"
        ).split()
        == ["absent"] * 3
    )


def test_a_late_install_is_refused():
    assert "k25serve.patches.launch" in run(
        "import sys, types\n"
        "sys.modules['sgl_kernel'] = types.ModuleType('sgl_kernel')\n"
        "from k25serve.patches.reference import stand_in\n"
        "assert not stand_in.is_installed()\n"
        "try: stand_in.install()\n"
        "except RuntimeError as error: print(error)\n"
    )
