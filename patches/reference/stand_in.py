"""The modules that SGLang imports on a CPU and that no CPU wheel provides, made in memory.

SGLang's CPU path imports its kernels from `sgl_kernel`, whose CPU build wants AMX and is built from source. Every
name that SGLang 0.5.23 asks for there is in `functions()`; anything else stays an ImportError, so an upgrade that
needs more fails loudly. No `torch.ops` are registered, so SGLang finds no AMX support and takes its torch paths
everywhere else.

SGLang imports these names before it loads plugins, hence `launch.py` installs them first thing in every process.
"""

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

KERNEL_MODULE = "sgl_kernel"
UPSTREAM_BACKEND_MODULE = "sglang.srt.layers.attention.torch_native_backend"
_MARK = "__k25serve_stand_in__"


def functions() -> dict[str, dict[str, Callable[..., object]]]:
    """Module name -> name -> function: the whole of the stand-in. Imports torch."""
    from k25serve.patches.reference import cache_locs, tree, verify

    return {
        KERNEL_MODULE: {
            "assign_draft_cache_locs_contiguous_cpu": cache_locs.assign_draft_cache_locs_contiguous,
            "assign_extend_cache_locs_cpu": cache_locs.assign_extend_cache_locs,
            "assign_req_to_token_pool_cpu": cache_locs.assign_req_to_token_pool,
            "build_tree_kernel_efficient_cpu": tree.build_tree,
            "copy_all_layer_kv_cache_cpu": cache_locs.copy_all_layer_kv_cache,
            "fill_accept_out_cache_loc_cpu": cache_locs.fill_accept_out_cache_loc,
            "fill_bonus_tokens_cpu": cache_locs.fill_bonus_tokens,
            "rotate_input_ids_cpu": cache_locs.rotate_input_ids,
            "verify_tree_greedy_cpu": verify.verify_tree_greedy,
        },
        f"{KERNEL_MODULE}.speculative": {
            "reconstruct_indices_from_tree_mask": tree.reconstruct_indices_from_tree_mask,
        },
        # Upstream's back end can't serve MLA. Refusing it means that a process in which the plugin did not run stops
        # as soon as it builds its attention, instead of serving something else.
        UPSTREAM_BACKEND_MODULE: {"TorchNativeAttnBackend": _refuse_upstream_backend},
    }


def install() -> None:
    """Put the modules in `sys.modules`. Raises RuntimeError if SGLang or a real sgl_kernel was imported before."""
    early = [name for name in (KERNEL_MODULE, UPSTREAM_BACKEND_MODULE) if name in sys.modules]
    if early:
        raise RuntimeError(
            f"{early[0]} is already imported: start the server with python -P -m k25serve.patches.launch"
        )
    for name, members in functions().items():
        module = ModuleType(name, "In-memory stand-in of k25serve's CPU reference.")
        module.__spec__ = ModuleSpec(name, loader=None)
        for member, value in {**members, _MARK: True}.items():
            setattr(module, member, value)
        sys.modules[name] = module
        package, _, child = name.rpartition(".")
        if package in sys.modules:
            setattr(sys.modules[package], child, module)


def is_installed() -> bool:
    """Whether this process runs on the stand-in."""
    return hasattr(sys.modules.get(KERNEL_MODULE), _MARK)


def _refuse_upstream_backend(runner: object) -> NoReturn:
    raise SystemExit(
        "k25serve: the CPU reference is not installed in this process, so it must not serve: "
        "SGLang did not run the plugin 'k25serve' (check SGLANG_PLUGINS and that k25serve is installed)"
    )
