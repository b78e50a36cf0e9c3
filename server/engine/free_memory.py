"""How much memory is free: in RAM, within the limits of this process's cgroups, and on each GPU."""

import re
import subprocess
from pathlib import Path


def available_ram(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that can be had without swapping: MemAvailable, or the least that a cgroup v2 limit above us leaves."""
    fields = dict(line.split(":") for line in (proc / "meminfo").read_text(encoding="ascii").splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    group = groups / _own_group(proc)
    for folder in (group, *group.parents):
        if folder.is_relative_to(groups):
            available = min(available, _headroom(folder, available))
    return available


def _own_group(proc: Path) -> str:
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    # A path with `..` lies outside of what this container sees.
    return "" if ".." in path.split("/") else path


def _headroom(group: Path, otherwise: int) -> int:
    """What the limit of one cgroup leaves; `otherwise` where it has none, or its files cannot be read."""
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):  # no memory controller, or `max`
        return otherwise
    # The page cache counts as used, but the kernel gives it back before it refuses memory.
    return limit - used + int(stat.get("inactive_file", 0))


def free_gpu_bytes() -> list[int | None]:
    """Free memory of each GPU in bytes, from nvidia-smi; None where it does not know, empty where there is no GPU."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, errors="replace", timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    # A GPU without a number of its own says [N/A] or [Not Supported]; any other line is a remark.
    found = re.findall(r"^\s*(?:([0-9]{1,12})|\[.*\])\s*$", answer.stdout, flags=re.MULTILINE)
    return [int(mebibytes) * 2**20 if mebibytes else None for mebibytes in found]
