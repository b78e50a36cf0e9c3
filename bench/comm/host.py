"""The host's part in whether GPUs can write to each other: IOMMU, kernel command line, topology, NCCL's environment."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from k25serve.bench.comm.report import Host

PREFIXES = ("NCCL_", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_PRELOAD")


def read_host(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Host:
    """Read this host; `root` stands for another root folder."""
    command_line = _text(root / "proc/cmdline")
    groups = sorted((root / "sys/kernel/iommu_groups").glob("*"))
    kind = _text(groups[0] / "type") if groups else ""
    return Host(
        kernel_command_line=command_line,
        iommu_groups=len(groups),
        iommu_type=kind,
        topology=_ask("nvidia-smi", "topo", "-m"),
        nccl_environment={name: value for name, value in sorted(environment.items()) if name.startswith(PREFIXES)},
        findings=findings(command_line, len(groups), kind),
    )


def findings(command_line: str, groups: int, kind: str) -> tuple[str, ...]:
    """What the IOMMU's state means for peer-to-peer transfers, in lines for a person."""
    words = command_line.split()
    if not groups:
        return ("IOMMU: off, or hidden from this container or guest; peer-to-peer writes are not translated here",)
    if "iommu=pt" in words or kind == "identity":
        return (f"IOMMU: on, passthrough ({groups} groups); peer-to-peer writes go untranslated",)
    return (
        f"IOMMU: on and translating ({groups} groups, type {kind or 'unknown'}), without iommu=pt on the kernel "
        "command line: known to make peer-to-peer all-reduces hang on PCIe; boot with iommu=pt, or turn ACS off",
    )


def gpu_count() -> int:
    """GPUs that nvidia-smi lists; 0 without it."""
    return len(_ask("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").splitlines())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _ask(*command: str) -> str:
    """A program's output; empty where it is missing, fails or takes over 20 s."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.rstrip()
    except (FileNotFoundError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return ""
