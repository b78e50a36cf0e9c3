"""What a compiled kernel needs, read from its PTX and from the assembler that Triton brings along."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton


@dataclass(frozen=True)
class Resources:
    """One compiled kernel. shared: bytes a block; registers: a thread; spills: bytes a thread, stored and loaded.

    copies: asynchronous copies; ahead: most copy groups still in flight after a wait, 0 where every wait is for all of
    them, so that copies and products never overlap.
    """

    kernel: str
    warps: int
    stages: int
    shared: int
    registers: int
    spill_stores: int
    spill_loads: int
    products: int
    copies: int
    ahead: int


def resources_of(kernel: Any, arch: str) -> Resources:
    """The resources of a kernel that Triton compiled for `arch`. Raises RuntimeError where ptxas refuses it."""
    ptx: str = kernel.asm["ptx"]
    registers, stores, loads = _assemble(ptx, arch)
    return Resources(
        kernel=kernel.name,
        warps=kernel.metadata.num_warps,
        stages=kernel.metadata.num_stages,
        shared=kernel.metadata.shared,
        registers=registers,
        spill_stores=stores,
        spill_loads=loads,
        products=len(re.findall(r"^\s*(?:@\S+\s+)?(?:mma\.sync|wgmma\.mma_async)", ptx, re.MULTILINE)),
        copies=len(re.findall(r"\bcp\.async\.c[ag]\.", ptx)),
        ahead=max((int(n, 0) for n in re.findall(r"cp\.async\.wait_group\s+(\w+)", ptx)), default=0),
    )


def _assemble(ptx: str, arch: str) -> tuple[int, int, int]:
    """Registers, bytes of spill stores and of spill loads, by ptxas -v. Triton's own compile keeps none of them."""
    target = re.search(r"\.target\s+(sm_\w+)", ptx)
    if target is None:
        raise RuntimeError("the PTX names no target")
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    program = folder / ("ptxas-blackwell" if int(arch.removeprefix("sm_")) >= 100 else "ptxas")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [str(program), "-v", f"--gpu-name={target[1]}", file.name, "-o", "/dev/null"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    used = re.search(r"Used (\d+) registers", answer.stderr)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", answer.stderr)
    if used is None or spills is None:
        raise RuntimeError(f"{program.name} failed: {answer.stderr.strip()[-400:]}")
    return int(used[1]), int(spills[1]), int(spills[2])
