"""SGLang's own Triton attention kernels, loaded from their files without the rest of SGLang.

The five files import two helpers from `sglang.srt`; those are stubs that answer "CUDA, not ROCm, default settings". So
the kernels load without a GPU, from an installed SGLang or from a folder that holds just these files, and a compile of
them needs no 6 GB install. Nothing stays behind in `sys.modules`.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

PACKAGE = "sglang.kernels.ops.attention"
FILES = ("decode_attention", "extend_attention", "score_mod", "verify_mla", "verify_splitkv")
# Newer than 0.5.17.
OPTIONAL = ("verify_mla",)


@dataclass(frozen=True)
class SGLangKernels:
    """The loaded modules; verify is None where this SGLang has no verify_mla."""

    version: str
    extend: Any
    decode: Any
    verify: Any


def installed_folder() -> Path:
    """Where the installed SGLang keeps these files. Raises ModuleNotFoundError where there is none."""
    spec = find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("sglang is not installed; name a folder with its attention kernels instead")
    return Path(spec.submodule_search_locations[0]) / "kernels" / "ops" / "attention"


def load(folder: Path, version: str, capability: tuple[int, int]) -> SGLangKernels:
    """Load the kernels of SGLang `version` as it would on a CUDA device of this compute capability.

    Raises FileNotFoundError naming the file that `folder` lacks.
    """
    for name in FILES:
        if name not in OPTIONAL and not (folder / f"{name}.py").is_file():
            raise FileNotFoundError(f"{folder} has no {name}.py; it should hold {', '.join(FILES)} of SGLang's wheel")
    with _stubs(folder):
        extend: Any = importlib.import_module(f"{PACKAGE}.extend_attention")
        decode: Any = importlib.import_module(f"{PACKAGE}.decode_attention")
        has_verify = (folder / "verify_mla.py").is_file()
        verify: Any = importlib.import_module(f"{PACKAGE}.verify_mla") if has_verify else None
    extend._is_cuda = True
    extend.CUDA_CAPABILITY = capability
    return SGLangKernels(version, extend, decode, verify)


@contextmanager
def _stubs(folder: Path) -> Iterator[None]:
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "sglang"}
    for name in before:
        del sys.modules[name]
    names = ("sglang", "sglang.srt", "sglang.kernels", "sglang.kernels.ops", PACKAGE)
    for name in (*names, "sglang.srt.utils", "sglang.srt.environ"):
        sys.modules[name] = ModuleType(name)
    sys.modules[PACKAGE].__path__ = [str(folder)]
    utils: Any = sys.modules["sglang.srt.utils"]
    utils.__getattr__ = lambda name: _no if name.startswith("is_") else _unknown(name)
    utils.get_device_core_count = lambda *_: 0
    environ: Any = sys.modules["sglang.srt.environ"]
    environ.envs = _Unset()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "sglang"]:
            del sys.modules[name]
        sys.modules.update(before)


def _no(*_: object) -> bool:
    return False


def _unknown(name: str) -> object:
    raise AttributeError(f"SGLang's kernels ask sglang.srt.utils for {name}, which this stub doesn't have")


class _Unset:
    """Every environment switch of SGLang at 'off'."""

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(get=_no)
