"""GPUs, driver, toolkit: enough of them, new enough, and binaries that hold code for them."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from k25serve.deploy.doctor.finding import Finding, ok, skip
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile
from k25serve.server.config.shown import shown

NAMES = ("driver", "devices", "toolkit", "architecture")
DEVICES = ("nvidiactl", "nvidia-uvm")
# CUDA's release notes, table of minimum drivers on Linux: minor versions of a major one run on its first driver.
LEAST_DRIVER = {12: (525, 60), 13: (580, 65)}
CAPABILITY = re.compile(r"\d+\.\d+", re.ASCII)
NVCC = re.compile(r"release (\d+)\.(\d+)")


def check(profile: Profile, machine: Machine) -> list[Finding]:
    """Skipped for a profile of the CPU."""
    if profile.engine.device == "cpu":
        return [skip(name, "the profile runs on the CPU") for name in NAMES]
    listed = machine.ask("nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader")
    rows = [[part.strip() for part in line.split(",")] for line in (listed or "").splitlines() if line.count(",") == 2]
    if not rows:
        evidence = f"nvidia-smi says {shown(listed)}" if listed else "nvidia-smi is missing or lists no GPU"
        missing = Finding("driver", "fail", evidence, "install NVIDIA's driver, or use a cpu profile")
        return [missing, *(skip(name, "no GPU") for name in NAMES[1:])]
    cuda = wheels_cuda()
    return [
        judge_driver([row[0] for row in rows], rows[0][1], cuda, profile.engine.tp),
        judge_devices(machine),
        judge_toolkit(machine, cuda),
        *_architectures(machine, sorted({row[2] for row in rows})),
    ]


def wheels_cuda() -> tuple[int, int] | None:
    """CUDA version that the installed torch was built for, from its version file; None for a CPU build or no torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^cuda.*['\"](\d+)\.(\d+)", text, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def judge_driver(names: Sequence[str], driver: str, cuda: tuple[int, int] | None, wanted: int) -> Finding:
    """Enough GPUs for the profile's ranks, and a driver that runs the wheels' CUDA."""
    evidence = f"{len(names)} x {names[0]}, driver {driver}"
    if len(names) < wanted:
        return Finding("driver", "fail", f"{evidence}; engine.tp is {wanted}", "lower engine.tp, or add GPUs")
    if cuda is None:
        return Finding(
            "driver", "fail", f"{evidence}; torch is a CPU build or missing", "install deploy/locks/cuda.txt"
        )
    least = LEAST_DRIVER.get(cuda[0])
    version = tuple(int(part) for part in re.findall(r"\d+", driver)[:2])
    if least is not None and version < least:
        needed = ".".join(map(str, least))
        return Finding(
            "driver", "fail", f"{evidence}; torch is built for CUDA {cuda[0]}.{cuda[1]}", f"driver {needed} or newer"
        )
    return ok("driver", f"{evidence}; torch is built for CUDA {cuda[0]}.{cuda[1]}")


def judge_devices(machine: Machine) -> Finding:
    """CUDA's device files: a container that has the GPUs but not nvidia-uvm fails at the first allocation."""
    missing = [name for name in DEVICES if not (machine.root / "dev" / name).exists()]
    if missing:
        names = " and ".join(f"/dev/{name}" for name in missing)
        remedy = "on the host: modprobe nvidia-uvm, and pass the device into the container"
        return Finding("devices", "fail", f"{names} is not there", remedy)
    return ok("devices", ", ".join(f"/dev/{name}" for name in DEVICES))


def judge_toolkit(machine: Machine, cuda: tuple[int, int] | None) -> Finding:
    """Marlin and others compile at run time: CUDA_HOME with an nvcc of the wheels' major version."""
    home = machine.environ.get("CUDA_HOME") or machine.environ.get("CUDA_PATH")
    program = f"{home}/bin/nvcc" if home else "nvcc"
    told = NVCC.search(machine.ask(program, "--version") or "")
    remedy = "install the CUDA toolkit, and set CUDA_HOME in the profile's engine.env"
    if told is None:
        return Finding("toolkit", "fail", f"{program} does not run; kernels compile at run time", remedy)
    found = (int(told[1]), int(told[2]))
    evidence = f"{program} is {found[0]}.{found[1]}"
    if cuda is not None and found[0] != cuda[0]:
        wheels = f"torch is built for {cuda[0]}.{cuda[1]}"
        return Finding("toolkit", "fail", f"{evidence}, {wheels}", f"point CUDA_HOME at a toolkit {cuda[0]}.x")
    if home is None:
        return Finding("toolkit", "warn", f"{evidence}, CUDA_HOME is not set", "set CUDA_HOME in engine.env")
    return ok("toolkit", evidence)


def judge_architecture(capability: str, arch_list: Sequence[str]) -> tuple[str, str]:
    """Verdict and reason for binaries of `arch_list` (sm_90, sm_120a, compute_90) on a GPU of `capability` (12.0).

    Machine code runs on its major version from its minor one up, and not at all elsewhere if it is of an `a` or `f`
    target; PTX (compute_*) is compiled by the driver for its version and all later ones. Source: CUDA C++ programming
    guide, compute capabilities and binary compatibility.
    """
    major, minor = (int(part) for part in capability.split("."))
    for arch in arch_list:
        kind, _, number = arch.partition("_")
        digits = re.match(r"\d+", number)
        if kind == "sm" and digits is not None:
            value = int(digits[0])
            same = (value // 10, value % 10) == (major, minor)
            if same or (number == digits[0] and value // 10 == major and value % 10 <= minor):
                return "ok", f"{arch} runs on {capability}"
    for arch in arch_list:
        kind, _, number = arch.partition("_")
        if kind == "compute" and number.isdecimal() and int(number) <= major * 10 + minor:
            return "warn", f"only PTX ({arch}) for {capability}: the driver compiles it at the first start"
    return "fail", f"no code for {capability} among {', '.join(arch_list) or 'none'}: no kernel image would be found"


def _architectures(machine: Machine, capabilities: Sequence[str]) -> list[Finding]:
    import sys

    script = "import torch; print(*torch.cuda.get_arch_list())"
    listed = machine.ask(sys.executable, "-P", "-c", script, seconds=60)
    if listed is None:
        return [Finding("architecture", "fail", "torch.cuda.get_arch_list() failed", "install deploy/locks/cuda.txt")]
    found = []
    for capability in capabilities:
        if not CAPABILITY.fullmatch(capability):
            evidence = f"nvidia-smi tells {shown(capability)} as a compute capability"
            found.append(Finding("architecture", "fail", evidence, "update NVIDIA's driver"))
            continue
        verdict, reason = judge_architecture(capability, listed.split())
        remedy = "" if verdict == "ok" else "install a torch built for this GPU (deploy/locks/cuda.txt)"
        found.append(Finding("architecture", verdict, f"torch: {reason}", remedy))  # type: ignore[arg-type]
    return [*found, *_kernels(machine)]


def _kernels(machine: Machine) -> list[Finding]:
    """One small kernel of each package, run in a process of its own."""
    import json
    import sys

    told = machine.ask(sys.executable, "-P", "-m", "k25serve.patches.smoke", seconds=60)
    if told is None:
        remedy = "run python -P -m k25serve.patches.smoke yourself"
        return [Finding("kernels", "fail", "the small kernels of torch, SGLang and k25serve gave no report", remedy)]
    found = []
    for line in told.splitlines():
        if not line.startswith("{"):  # what a package says as it is imported
            continue
        row = json.loads(line)
        if row["error"]:
            found.append(Finding("kernels", "fail", f"{row['package']}: {row['error']}", f"reinstall {row['package']}"))
        else:
            found.append(ok("kernels", f"{row['package']}: {row['kernel']} runs"))
    return found
