"""What the host and the container allow: shared memory, limits, kernel parameters."""

import resource

from k25serve.deploy.doctor.finding import Finding, ok, skip
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile
from k25serve.server.engine.preflight import GIB

SHM_BYTES_PER_RANK = GIB  # NCCL's buffers and SGLang's own broadcasts between ranks
LEAST_FILES = 65_536


def check(profile: Profile, machine: Machine) -> list[Finding]:
    """Limits are of this process: a service has its unit's."""
    return [
        judge_shm(machine, profile.engine.tp),
        judge_files(resource.getrlimit(resource.RLIMIT_NOFILE)),
        *judge_kernel(machine, profile),
    ]


def judge_shm(machine: Machine, ranks: int) -> Finding:
    """Ranks talk through /dev/shm; a container's default of 64 MiB ends in a bus error."""
    size = machine.free_bytes("dev/shm")
    if size is None:
        return Finding("shared memory", "fail", "/dev/shm is not there", "mount a tmpfs at /dev/shm")
    if ranks == 1:
        return ok("shared memory", f"/dev/shm is {size / GIB:.2f} GiB, one rank")
    needed = ranks * SHM_BYTES_PER_RANK
    evidence = f"/dev/shm is {size / GIB:.2f} GiB for {ranks} ranks"
    if size < needed:
        gib = needed // GIB
        return Finding("shared memory", "fail", evidence, f"mount -o remount,size={gib}G /dev/shm (--shm-size={gib}g)")
    return ok("shared memory", evidence)


def judge_files(limit: tuple[int, int]) -> Finding:
    """A connection is a file, and so is each shard that is read."""
    soft, hard = limit
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and hard < LEAST_FILES:
        remedy = f"LimitNOFILE={LEAST_FILES} in the unit, or ulimit -n {LEAST_FILES}"
        return Finding("open files", "warn", f"limit {soft} (hard {hard})", remedy)
    return ok("open files", f"limit {soft} (hard {'unlimited' if hard == unlimited else hard})")


def container_of(machine: Machine) -> str | None:
    """docker, podman, lxc and others, or None on a host or in a virtual machine."""
    if (machine.root / ".dockerenv").exists():
        return "docker"
    environment = machine.read("proc/1/environ") or ""
    for item in environment.split("\0"):
        if item.startswith("container="):
            return item.removeprefix("container=") or "container"
    return "podman" if (machine.root / "run/.containerenv").exists() else None


def judge_kernel(machine: Machine, profile: Profile) -> list[Finding]:
    """IOMMU on the kernel's command line, NUMA balancing. In a container the remedy is the host's."""
    line = machine.read("proc/cmdline")
    if line is None:
        return [skip("kernel", "/proc/cmdline cannot be read")]
    container = container_of(machine)
    where = f"on the host ({container} container here): " if container else ""
    found = [judge_iommu(line, profile.engine.tp, where)]
    balancing = machine.read("proc/sys/kernel/numa_balancing")
    if balancing == "1" and profile.engine.device == "cuda":
        evidence = "kernel.numa_balancing is 1: pages of pinned ranks move"
        found.append(Finding("numa balancing", "warn", evidence, f"{where}sysctl -w kernel.numa_balancing=0"))
    return found


def judge_iommu(line: str, ranks: int, where: str) -> Finding:
    """Copies between GPUs go through an IOMMU that translates, slowly, or hang. Source: NVIDIA/nccl issue 1999."""
    words = [word for word in line.split() if "iommu" in word]
    said = ", ".join(words) or "says nothing of an IOMMU"
    if ranks == 1:
        return ok("iommu", f"kernel command line {said}; one rank needs no peer copies")
    if {"iommu=pt", "iommu=off", "amd_iommu=off", "intel_iommu=off"} & set(words):
        return ok("iommu", f"kernel command line: {said}")
    remedy = f"{where}add iommu=pt to the kernel command line, and turn ACS off for the GPUs' bridges"
    return Finding("iommu", "warn", f"kernel command line: {said}: peer copies may be slow or hang", remedy)
