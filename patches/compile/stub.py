"""Triton's launch path with no GPU behind it: launches compile and return, nothing runs.

A stub driver answers for the target architecture, and every launch becomes a warm-up. So the launchers' own Python code
decides signature, constants and options: the gate can't compile something that a launch would not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction


@dataclass
class Collector:
    """Kernels that launches compiled since the last `take`."""

    kernels: list[Any] = field(default_factory=list)

    def take(self) -> list[Any]:
        """The kernels collected so far, each once; forgets them."""
        found = list({kernel.hash: kernel for kernel in self.kernels}.values())
        self.kernels.clear()
        return found


class _Driver:
    """What a launch asks of a driver. Device 0 of the target, stream 0."""

    def __init__(self, arch: int) -> None:
        self._target = GPUTarget("cuda", arch, 32)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_active_torch_device(self) -> str:
        return "meta"


@contextmanager
def launches_compile_for(arch: str) -> Iterator[Collector]:
    """Inside, a Triton launch compiles for `arch` ("sm_120") and is collected. Leaves Triton as it was."""
    collector = Collector()
    original: Callable[..., Any] = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["warmup"] = True
        kernel = original(self, *args, **kwargs)
        collector.kernels.append(kernel)
        return kernel

    before = driver.__dict__.copy()
    driver.set_active(_Driver(int(arch.removeprefix("sm_"))))
    JITFunction.run = run
    try:
        yield collector
    finally:
        JITFunction.run = original
        driver.__dict__.clear()
        driver.__dict__.update(before)


def triton_version() -> str:
    """The version that compiles."""
    return str(triton.__version__)
