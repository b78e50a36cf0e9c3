"""What must hold before the engine is started: each check ends in one line that names the thing and the remedy."""

import json
import os
import shutil
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from k25serve.server.config import Profile
from k25serve.server.config.versions import CPU_SGLANG, SUPPORTED_SGLANG
from k25serve.server.errors import PreflightError

GIB = 2**30
# Main, scheduler and detokenizer of SGLang 0.5.23 on a CPU with a CUDA build of torch; each further rank: a scheduler.
CPU_PROCESSES_BYTES = 4 * GIB
CPU_RANK_BYTES = int(1.5 * GIB)
BYTES_PER_ELEMENT = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}


def preflight(profile: Profile) -> None:
    """Run every check. Raises PreflightError at the first that fails."""
    check_port("engine.port", "127.0.0.1", profile.engine.port)
    check_sglang(profile)
    check_model("target", profile.target)
    if profile.speculation.drafter is not None:
        check_model("speculation.drafter", profile.speculation.drafter)
    check_compiler(profile)
    check_memory(profile)


def check_port(field: str, host: str, port: int) -> None:
    """Raise unless a listener can be opened on host:port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PreflightError(
                f"{field} {host}:{port} cannot be opened ({os.strerror(error.errno or 0)}); "
                f"stop what listens there or pass --set {field}=PORT"
            ) from None


def check_sglang(profile: Profile) -> None:
    """Raise unless the installed SGLang is the version that the profile names, and runs on its device."""
    wanted = profile.engine.version
    supported = " or ".join(SUPPORTED_SGLANG)
    try:
        found = version("sglang")
    except PackageNotFoundError:
        raise PreflightError(
            f"SGLang is not installed here; install {supported}: uv pip install --no-deps -r deploy/locks/cuda.txt "
            "(cpu.txt without a GPU)"
        ) from None
    if found != wanted:
        raise PreflightError(
            f"SGLang {found} is installed, profile {profile.name} asks for {wanted} (supported: {supported}); "
            f"install sglang=={wanted}, or pass --set engine.version={found} if it is supported"
        )
    if profile.engine.device == "cpu" and wanted not in CPU_SGLANG:
        raise PreflightError(
            f"SGLang {wanted} runs on GPUs only here; the CPU needs {' or '.join(CPU_SGLANG)}: "
            "install it, or set engine.device=cuda"
        )


def check_model(field: str, folder: str) -> None:
    """Raise unless `folder` holds a readable config.json and safetensors."""
    path = Path(folder)
    if not path.is_dir():
        raise PreflightError(
            f"{field} {folder}: no such folder; download the model there, or pass --set {field}=FOLDER"
        )
    config = path / "config.json"
    if not config.is_file():
        raise PreflightError(f"{field} {folder}: has no config.json; point it at a Hugging Face model folder")
    try:
        parsed = json.loads(config.read_bytes())
    except ValueError as error:
        raise PreflightError(f"{field} {config}: not valid JSON ({error}); download it again") from None
    if not isinstance(parsed, dict) or not parsed.get("architectures"):
        raise PreflightError(f"{field} {config}: has no 'architectures'; point it at a Hugging Face model folder")
    if not any(path.glob("*.safetensors")):
        raise PreflightError(f"{field} {folder}: holds no *.safetensors; the download is not complete")


def check_compiler(profile: Profile) -> None:
    """Raise where n-gram speculation cannot build its index: SGLang compiles it with a C++ compiler at start."""
    compiler = os.environ.get("CXX", "g++")
    if profile.speculation.algorithm == "ngram" and shutil.which(compiler) is None:
        raise PreflightError(
            f"speculation.algorithm ngram: SGLang builds its index with {compiler}, which is not on PATH; "
            "install it (Debian: apt-get install g++), or set CXX"
        )


def weight_bytes(folder: str) -> int:
    """Size of the safetensors files in `folder`."""
    return sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))


def check_memory(profile: Profile) -> None:
    """Raise when the weights cannot fit: in the RAM that is free (cpu), in each GPU's free memory (cuda)."""
    weights = weight_bytes(profile.target)
    if profile.speculation.drafter is not None:
        weights += weight_bytes(profile.speculation.drafter)
    if profile.engine.device == "cpu":
        _check_ram(profile, weights)
    else:
        _check_gpus(profile, weights)


def _check_ram(profile: Profile, weights: int) -> None:
    tp = profile.engine.tp
    # The files hold 2 bytes an element; the engine holds them in its dtype.
    needed = CPU_PROCESSES_BYTES + (tp - 1) * CPU_RANK_BYTES + weights * BYTES_PER_ELEMENT[profile.engine.dtype] // 2
    free = available_ram()
    if free < needed:
        raise PreflightError(
            f"no room in memory: target {profile.target} needs about {needed / GIB:.1f} GiB at tp {tp}, "
            f"{free / GIB:.1f} GiB are available; free some, or lower engine.tp"
        )


def available_ram() -> int:
    """Bytes that can be had without swapping: MemAvailable, or what a cgroup's limit leaves, if that is less."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    limit = group / "memory.max"
    if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()) != "max":
        stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        # The page cache counts as used, but the kernel gives it back before it refuses memory.
        used = int((group / "memory.current").read_text(encoding="ascii")) - int(stat["inactive_file"])
        available = min(available, int(text) - used)
    return available


def _check_gpus(profile: Profile, weights: int) -> None:
    engine = profile.engine
    free = free_gpu_bytes()
    if len(free) < engine.tp:
        raise PreflightError(
            f"engine.tp {engine.tp} needs {engine.tp} GPUs, nvidia-smi lists {len(free)}; "
            f"lower engine.tp, or use a cpu profile"
        )
    share = weights // engine.tp
    for index, left in enumerate(free[: engine.tp]):
        if left < share:
            raise PreflightError(
                f"no room in memory: GPU {index} has {left / GIB:.1f} GiB free, its share of the weights is "
                f"{share / GIB:.1f} GiB; end what holds it (nvidia-smi lists it), or raise engine.tp"
            )


def free_gpu_bytes() -> list[int]:
    """Free memory of each GPU in bytes, from nvidia-smi; empty where there is none."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return []
    return [int(line) * 2**20 for line in answer.stdout.split()]
